"""One cell of the benchmark: a job of the agent, the key that its measurement is kept under, and the measurement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.prompts import PromptSet
from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION, EngineSpec, JobResult, JobSpec, RoundTrace, to_json
from orchestrator.models.store import Pair


@dataclass(frozen=True)
class Measured:
    """What a cell's job gave."""

    label: str
    load: float  # the machine's load average over a minute when it began
    result: JobResult
    rounds: tuple[RoundTrace, ...]

    @property
    def tpot_s(self) -> float:
        """Seconds a token, over all prompts of the set."""
        timed = [(r.tpot_s, len(r.output_ids) - 1) for r in self.result.requests if r.tpot_s]
        return sum(tpot * gaps for tpot, gaps in timed) / sum(gaps for _, gaps in timed)

    def count(self, kind: str) -> int:
        """Tokens that the agent's own check found exact, tie or diverged."""
        return int(self.result.metrics.get(f"{kind}_tokens", 0))


def job(pair: Pair, engine: EngineSpec, drafts: bool, prompts: PromptSet, tokens: int) -> JobSpec:
    """`drafts`: load the pair's draft model."""
    return JobSpec(
        version=PROTOCOL_VERSION,
        attempt_id="",
        trial_id="",
        target_pack=pair.target_pack,
        draft_pack=pair.draft_pack if drafts else None,
        engine=engine,
        prompts=prompts.prompts,
        max_new_tokens=tokens,
        stop_token_ids=pair.stop_token_ids,
    )


def job_key(spec: JobSpec) -> str:
    """Of everything that the measurement depends on but the machine."""
    return key_of(
        {"engine_version": ENGINE_VERSION, "job": to_json(replace(spec, attempt_id="", trial_id="", packs_dir=""))}
    )


def key_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


def output_tokens(cells: Sequence[Measured]) -> int:
    return sum(len(request.output_ids) for cell in cells for request in cell.result.requests)
