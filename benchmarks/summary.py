"""From a run to the figures of ENGINE §11: what engine.json holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.cell import Measured
from benchmarks.contenders import PARTS
from benchmarks.headroom import all_headroom
from benchmarks.ratios import Spread, best_by_set, paired, spread_of
from benchmarks.run import CAPPED, UNCAPPED, WITHOUT, Run
from benchmarks.tuning import CHAIN, EQUAL, LEVER, PLAIN, TREE
from device_agent.dram_plan import MB

BASELINES = (PLAIN, CHAIN, TREE)
COLUMNS = {"as_practised": "", "equal_features": EQUAL}  # and what marks their baselines
NOT_ASKED = "llama.cpp's binding was not asked for: LLAMA_CPP=1 make bench"
NO_CELLS = "not measured: the run ended before"
NO_PART = "no such part in this engine, or lever runs without it already"


def spreads(run: Run) -> dict[str, Spread]:
    """Every ratio by its dotted name in engine.json, as far as it was measured."""
    found = {
        f"{condition.name}.{column}.over_{baseline}": paired(
            run.tpot_s(condition.name, baseline + mark), run.tpot_s(condition.name, LEVER)
        )
        for condition in (*CAPPED, UNCAPPED)
        for column, mark in COLUMNS.items()
        for baseline in BASELINES
    }
    for condition in (*CAPPED, UNCAPPED):
        lever = run.cells.get(condition.name, {}).get(LEVER, {}).values()
        known = [cell.result.metrics.get("pipeline_efficiency") for cell in lever]
        found[f"{condition.name}.pipeline_efficiency"] = [value for value in known if value is not None]
    found |= _resident(run) | _ablation(run)
    return {name: spread for name, values in found.items() if (spread := spread_of(values))}


def _resident(run: Run) -> dict[str, list[float]]:
    plain, chain, lever = (run.tpot_s("resident", name) for name in (PLAIN, CHAIN, LEVER))
    best = best_by_set(plain, chain)
    return {
        "resident.over_llama_cpp": paired(run.llama_s, plain),
        "resident.lever_over_best": paired(best, lever),
    }


def _ablation(run: Run) -> dict[str, list[float]]:
    """Seconds a token without the part ÷ with it: what the part speeds up."""
    return {
        f"ablation.{condition.name}.{name.removeprefix(WITHOUT)}": paired(
            run.tpot_s(condition.name, name), run.tpot_s(condition.name, LEVER)
        )
        for condition in CAPPED
        for name in run.cells.get(condition.name, {})
        if name.startswith(WITHOUT)
    }


def plain_over_bound(run: Run) -> dict[str, float]:
    """Plain flash decoding's seconds a token ÷ (bytes that a round reads ÷ cap + projection), by capped condition."""
    found = {}
    for condition in CAPPED:
        cells = run.cells.get(condition.name, {}).get(PLAIN, {}).values()
        if cells and condition.cap_mb_s:
            found[condition.name] = median(cell.tpot_s / _bound_s(cell, condition.cap_mb_s) for cell in cells)
    return found


def _bound_s(cell: Measured, cap_mb_s: float) -> float:
    read_s = median(trace.read_bytes for trace in cell.rounds) / (cap_mb_s * MB)
    return read_s + median(trace.projection_s for trace in cell.rounds)


def exactness(cells: Sequence[Measured]) -> dict[str, Any]:
    """Of every output of the run, calibration included. Ties count neither as exact nor as diverged."""
    exact, ties, diverged = (sum(cell.count(kind) for cell in cells) for kind in ("exact", "tie", "diverged"))
    unchecked = [cell.label for cell in cells if "exact_tokens" not in cell.result.metrics]
    return {
        "exact_fraction": exact / (exact + diverged) if exact + diverged else None,
        "exact_tokens": exact,
        "tie_tokens": ties,
        "diverged": [f"{cell.label}: {cell.result.tags['exactness']}" for cell in cells if cell.count("diverged")],
        "unchecked": unchecked,
    }


def headrooms(run: Run) -> dict[str, dict[str, float]]:
    """Medians by capped condition."""
    found = {}
    for condition in CAPPED:
        cells = run.cells.get(condition.name, {}).get(LEVER, {}).values()
        values = all_headroom([*cells])
        if values:
            found[condition.name] = {name: median(many) for name, many in values.items()}
    return found


def summary(run: Run, cells: Sequence[Measured]) -> dict[str, Any]:
    """engine.json. A figure that is not there is named in `absent` with the reason; ratios are medians of `spread`."""
    ratios = spreads(run)
    found: dict[str, Any] = {}
    for name, spread in ratios.items():
        _put(found, name, spread.median)
    found |= {"python_share": run.python_share} if run.python_share is not None else {}
    found |= exactness(cells)
    found["plain_over_bound"] = plain_over_bound(run)
    found["headroom"] = headrooms(run)
    found["spread"] = {name: asdict(spread) for name, spread in ratios.items()}
    found["seconds_a_token"] = {
        condition: {name: run.tpot_s(condition, name) for name in contenders}
        for condition, contenders in run.cells.items()
    }
    found["tuning_s_a_token"] = {condition: tuned.candidates for condition, tuned in run.tuned.items()}
    found["void"] = _void(run)
    found["failures"] = run.failures
    found["complete"] = run.complete
    found["absent"] = _absent(found, run)
    return found


def _put(tree: dict[str, Any], name: str, value: float) -> None:
    *path, last = name.split(".")
    for step in path:
        tree = tree.setdefault(step, {})
    tree[last] = value


def _void(run: Run) -> dict[str, str]:
    """What the agent itself calls void."""
    return {
        f"{cell.label}: {tag.removeprefix('void.')}": reason
        for contenders in run.cells.values()
        for cells in contenders.values()
        for cell in cells.values()
        for tag, reason in cell.result.tags.items()
        if tag.startswith("void.")
    }


def _absent(found: Mapping[str, Any], run: Run) -> dict[str, str]:
    ratios = [f"{c.name}.{column}.over_{b}" for c in CAPPED for column in COLUMNS for b in BASELINES]
    wanted = [*ratios, *(f"{c.name}.pipeline_efficiency" for c in CAPPED), "resident.lever_over_best"]
    absent = {name: NO_CELLS for name in wanted if name not in found["spread"]}
    ablated = [c.name for c in CAPPED if any(name.startswith(WITHOUT) for name in run.cells.get(c.name, {}))]
    parts = [f"ablation.{condition}.{part}" for condition in ablated for part in PARTS]
    absent |= {name: NO_PART for name in parts if name not in found["spread"]}
    if not run.llama_s:
        absent["resident.over_llama_cpp"] = NOT_ASKED
    if run.python_share is None:
        absent["python_share"] = NO_CELLS
    return absent
