"""Does the phone compute what this host computes? A tiny model's logits, through the agent on both."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from device_agent.protocol import (
    PROTOCOL_VERSION,
    EngineSpec,
    JobResult,
    JobSpec,
    PackManifest,
    PromptSpec,
    StorageSpec,
    from_json,
    to_json,
)
from orchestrator.entities import AttemptOrder, Device
from orchestrator.errors import CommandFailed, PhoneError, PhoneUnsuitable
from orchestrator.farm.agent_client import forget_attempt, run_attempt
from orchestrator.farm.attempt_watch import Limits
from orchestrator.farm.connecting import Connect
from orchestrator.farm.local_agent import run_here
from orchestrator.farm.runtimes import HOST_PYTHON
from orchestrator.models.tiny_model import CONTEXT, write_tiny_pack
from orchestrator.settings import Settings

DEADLINE_S = 120.0
EMULATED_S = 1200.0
LIMITS = Limits(poll=0.1, first_contact=20.0, unreachable=40.0)
PROMPTS = ((1, 2, 3), (4, 0, 1, 3, 2, 2, 0, 4, 1), (0,))
NEW_TOKENS = 8
OTHER_CPU = 0.02  # of the logits' spread: what other instructions may differ by; the same CPU's differ by nothing


@dataclass(frozen=True)
class Shelf:
    """A PackStore (parcel.py) of the one pack."""

    root: Path

    def pack_dir(self, pack_hash: str) -> Path:
        return self.root / pack_hash

    def manifest(self, pack_hash: str) -> PackManifest:
        return from_json(PackManifest, json.loads((self.root / pack_hash / "model.json").read_bytes()))


def run_self_test(device: Device, connect: Connect, settings: Settings) -> str:
    """What came out, in words. Needs the phone for itself; removes its job there. Raises PhoneUnsuitable when the phone
    computes something else, PhoneError when its agent does not run, LeverError when this host's does not."""
    shelf = Shelf(settings.home / "self-test" / "packs")
    spec = _spec(write_tiny_pack(shelf.root))
    here = run_here(settings, replace(spec, packs_dir=str(shelf.root)), lambda _event: None)
    there = _on_phone(device, spec, shelf, connect, settings)
    allowed = 0.0 if device.facts["runtime"] == HOST_PYTHON else OTHER_CPU
    return compared(there, here, allowed)


def _spec(pack_hash: str) -> JobSpec:
    engine = EngineSpec(storage=StorageSpec("resident"), threads=1, n_ctx=CONTEXT)
    prompts = tuple(PromptSpec(str(index), ids) for index, ids in enumerate(PROMPTS))
    attempt = f"self-test-{secrets.token_hex(3)}"
    return JobSpec(PROTOCOL_VERSION, attempt, "self-test", pack_hash, None, engine, prompts, NEW_TOKENS, ())


def _on_phone(device: Device, spec: JobSpec, shelf: Shelf, connect: Connect, settings: Settings) -> JobResult:
    deadline_s = EMULATED_S if device.facts.get("emulated") else DEADLINE_S
    order = AttemptOrder(spec.attempt_id, device, to_json(spec), deadline_s)
    try:
        outcome = run_attempt(order, connect, shelf, settings, lambda _progress: None, threading.Event(), LIMITS)
    finally:
        with suppress(PhoneError):
            forget_attempt(order, connect)
    if outcome.result is None:
        last = outcome.log_tail.strip().splitlines()[-1:]
        raise CommandFailed(
            f"the agent did not run the tiny model: {outcome.failure_kind}: {outcome.failure_message}"
            f"{f' (it printed: {last[0][:200]})' if last else ''}",
            "Restart the phone, see that it has free memory and storage, and register it again.",
        )
    return from_json(JobResult, outcome.result)


def compared(there: JobResult, here: JobResult, allowed: float) -> str:
    """What came out, in words. `allowed`: share of the logits' spread; 0 allows no other text either. Raises
    PhoneUnsuitable."""
    pairs = list(_logit_pairs(there, here))
    spread = max(ours for _, _, ours in pairs) - min(ours for _, _, ours in pairs)
    worst = max(pairs, key=lambda pair: abs(pair[1] - pair[2]))
    difference, same = abs(worst[1] - worst[2]), _texts(there) == _texts(here)
    if difference > allowed * spread or (allowed == 0 and not same):
        raise PhoneUnsuitable(
            f"the phone computes otherwise than this host: {worst[0]} is {worst[1]:.6g} there and {worst[2]:.6g} here"
            f"{'' if same else ', and the texts differ'}",
            "Restart the phone and register it again; if it stays so, results from it cannot be trusted.",
        )
    equal = "equal this host's" if difference == 0 else f"differ from this host's by {difference:.2g} at most"
    texts = f"its {len(PROMPTS)} texts too" if same else "its texts part from this host's at ties only"
    return f"{len(pairs)} logits of a tiny model {equal}, and {texts}"


def _logit_pairs(there: JobResult, here: JobResult) -> Iterator[tuple[str, float, float]]:
    """Each token's logit after each prompt (the vocabulary is so small that the best five are all), and each margin, up
    to the first token that is another one: there the margins point in opposite ways, and after it the pasts differ."""
    for theirs, ours in zip(there.requests, here.requests, strict=True):
        logits: dict[int, float] = dict(theirs.top5_after_prompt)
        for token, logit in ours.top5_after_prompt:
            yield f"prompt {ours.id}, logit of token {token}", logits.get(token, float("inf")), logit
        choices = zip(theirs.output_ids, ours.output_ids, theirs.margins, ours.margins, strict=False)
        for index, (their_token, token, margin, own) in enumerate(choices):
            same = their_token == token
            yield f"prompt {ours.id}, margin at token {index}", margin if same else -margin, own
            if not same:
                break


def _texts(result: JobResult) -> list[Any]:
    return [request.output_ids for request in result.requests]
