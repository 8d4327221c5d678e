"""What was learnt of a pair's acceptance, in the model store: calibrations/KEY.json.

The key is of the packs, the engine's version and the sampling (its seed apart), so that another pack or engine finds
none. A record also holds the hashes of its prompts: whoever uses it must not be measured on them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from device_agent.protocol import (
    ENGINE_VERSION,
    EdgeCalibration,
    EdgeTrace,
    LayerPredictor,
    PredictorCalibration,
    PromptSpec,
    SamplingSpec,
    WireError,
    from_json,
    to_json,
)
from orchestrator.errors import ModelError
from orchestrator.models.edge_fit import EdgeFit, edge_data, fit_edges
from orchestrator.models.predictor import PruningReport
from orchestrator.models.store import ModelStore, Pair


@dataclass(frozen=True)
class Acceptance:
    edges: EdgeCalibration
    sampling: SamplingSpec
    prompts: tuple[str, ...]  # prompt_hash of each prompt it was learnt from
    fit: EdgeFit
    predictor: PredictorCalibration
    pruning: PruningReport


def prompt_hash(prompt: PromptSpec) -> str:
    """Of its token ids, whatever it is called."""
    return _digest(list(prompt.token_ids))


def learnt(
    pair: Pair, sampling: SamplingSpec, prompts: Iterable[PromptSpec], traces: Sequence[EdgeTrace]
) -> Acceptance:
    """Fit to `traces`. Where that is no better than the prior on held-out prompts, the prior is kept."""
    fit = fit_edges(edge_data(traces))
    seen = {trace.request for trace in traces}
    hashes = tuple(sorted(prompt_hash(prompt) for prompt in prompts if prompt.id in seen))
    edges = EdgeCalibration(
        weights=fit.weights if fit.better else EdgeCalibration.weights,
        target_pack=pair.target_pack,
        draft_pack=pair.draft_pack,
        engine_version=ENGINE_VERSION,
    )
    key = _digest([to_json(edges), to_json(unseeded(sampling)), hashes])
    report = PruningReport(False, "no predictor was learnt")
    return Acceptance(replace(edges, key=key), unseeded(sampling), hashes, fit, PredictorCalibration(), report)


def with_predictor(found: Acceptance, report: PruningReport, layers: tuple[LayerPredictor, ...]) -> Acceptance:
    """`layers`: none where pruning would not pay."""
    edges = found.edges
    predictor = PredictorCalibration(
        key=_digest([edges.key, to_json(report)]) if layers else "none",
        layers=layers,
        target_pack=edges.target_pack,
        draft_pack=edges.draft_pack,
        engine_version=edges.engine_version,
    )
    return replace(found, predictor=predictor, pruning=report)


def save(store: ModelStore, acceptance: Acceptance) -> None:
    """Whole or not at all; replaces what was there for the same key."""
    edges = acceptance.edges
    file = _file(store, edges.target_pack, edges.draft_pack, acceptance.sampling)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(to_json(acceptance), indent=1))
    temporary.replace(file)


def load(store: ModelStore, pair: Pair, sampling: SamplingSpec) -> Acceptance | None:
    """Of this pair, engine and sampling. Raises ModelError for a record that is broken or for something else."""
    file = _file(store, pair.target_pack, pair.draft_pack, sampling)
    remedy = f"Calibrate again: lever calibrate {pair.name}"
    try:
        found = from_json(Acceptance, json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, WireError) as error:
        raise ModelError(f"the calibration {file} is broken: {error}", remedy) from error
    edges = found.edges
    held, ours = (edges.target_pack, edges.draft_pack), (pair.target_pack, pair.draft_pack)
    if held != ours or edges.engine_version != ENGINE_VERSION or found.sampling != unseeded(sampling):
        what = f"packs {held[0][:12]} and {held[1][:12]}, engine {edges.engine_version}"
        raise ModelError(f"the calibration {file} is for {what}: not for pair {pair.name} and this engine", remedy)
    return found


def unseeded(sampling: SamplingSpec) -> SamplingSpec:
    return replace(sampling, seed=0)


def _file(store: ModelStore, target_pack: str, draft_pack: str, sampling: SamplingSpec) -> Path:
    key = _digest([target_pack, draft_pack, ENGINE_VERSION, to_json(unseeded(sampling))])
    return store.root / "calibrations" / f"{key}.json"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
