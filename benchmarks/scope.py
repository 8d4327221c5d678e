"""How much is measured: a whole run, or a quick look."""

from __future__ import annotations

from dataclasses import dataclass

Widths = tuple[int, ...]  # children of each node, by depth


def _forked(*widths: int, depth: int) -> Widths:
    """Forks at the top, then branches of single tokens down to `depth`."""
    return (*widths, *(1,) * (depth - len(widths)))


TREES: dict[str, Widths] = {
    "thin-5": _forked(2, depth=5),  # 10 nodes
    "thin-8": _forked(2, depth=8),  # 16
    "thin-12": _forked(2, depth=12),  # 24
    "fan-5": _forked(4, depth=5),  # 20
    "fork-7": _forked(2, 2, depth=7),  # 26
    "fork-10": _forked(2, 2, depth=10),  # 38
    "bush-5": _forked(4, 2, 2, depth=5),  # 60
}


@dataclass(frozen=True)
class Scope:
    name: str
    limit_s: float | None  # seconds after which no further cell is started
    sets: int  # of prompts
    prompts: int  # in a set
    tokens: int  # a prompt's output
    plain_tokens: int  # of plain flash decoding, whose speed hardly varies
    calibration_prompts: int
    calibration_tokens: int
    edge_rounds: int  # that acceptance is learnt from; 0: lever begins with the general prior
    k_step: int  # of the coarse search for the chain's k
    k_fine: bool  # then search finer around the best
    trees: tuple[str, ...]  # names in TREES
    tune_both: bool  # tune baselines once more with equal features, near what was found without; else they keep that
    uncapped: bool
    ablation: bool


FULL = Scope(
    name="full",
    limit_s=None,
    sets=3,
    prompts=1,
    tokens=128,
    plain_tokens=32,
    calibration_prompts=2,
    calibration_tokens=48,
    edge_rounds=300,
    k_step=3,
    k_fine=True,
    trees=tuple(TREES),
    tune_both=True,
    uncapped=True,
    ablation=True,
)
QUICK = Scope(
    name="quick",
    limit_s=900.0,
    sets=2,
    prompts=1,
    tokens=40,
    plain_tokens=8,
    calibration_prompts=1,
    calibration_tokens=20,
    edge_rounds=0,
    k_step=6,
    k_fine=False,
    trees=("fan-5", "thin-8"),
    tune_both=False,
    uncapped=False,
    ablation=False,
)
