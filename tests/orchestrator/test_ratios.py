"""Speed-ups over repeats: who is paired with whom, and what is said of it."""

from __future__ import annotations

import math

import pytest

from orchestrator import ratio_view
from orchestrator.entities import Trial
from orchestrator.ratios import ratios
from tests.fakes import trials as fake

PROMPTS = ("a", "b", "c")


def trial(strategy: str, repeat: int, seconds: float, config: str = "", device: str = "oneplus12") -> Trial:
    """Prompts a, b and c take 1, 2 and 3 times `seconds` a token."""
    spec = fake.spec(f"{device}-{strategy}{config}-{repeat}", device=device, strategy=strategy, repeat=repeat)
    labels = {**spec.labels, "config_key": f"{strategy}{config}", "baseline_key": f"base-{device}-{repeat}"}
    requests = [fake.request([1, 2], id=p, tpot_s=seconds * (i + 1)) for i, p in enumerate(PROMPTS)]
    changed = fake.spec(spec.trial_id, device=device, strategy=strategy, repeat=repeat, labels=labels)
    return fake.done(changed, fake.result(spec.trial_id, requests))


def test_repeats_are_paired_and_give_an_interval() -> None:
    times = [(2.0, 1.0), (2.2, 1.05), (1.9, 1.0), (2.1, 1.0)]
    made = [
        t
        for r, (plain, chain) in enumerate(times)
        for t in (trial("autoregressive", r, plain), trial("chain", r, chain))
    ]
    (found,) = ratios(made)
    assert found.speedup == pytest.approx(math.prod(p / c for p, c in times) ** 0.25)
    assert found.low is not None
    assert found.high is not None
    assert 1.7 < found.low < found.speedup < found.high < 2.5
    assert (found.sessions, found.prompts, found.config_key) == (4, 3, "chain")
    assert found.within == pytest.approx(0.0, abs=1e-6)  # prompts keep their proportion in every session
    assert found.between == pytest.approx(0.0244, rel=0.01)
    assert found.trial_ids == tuple(f"oneplus12-chain-{r}" for r in range(4))


def test_an_interval_that_tells_nothing_says_so() -> None:
    times = [(2.0, 1.0), (2.0, 2.5)]
    made = [t for r, (p, c) in enumerate(times) for t in (trial("autoregressive", r, p), trial("chain", r, c))]
    (found,) = ratios(made)
    assert ratio_view.interval(found) == "too few sessions"


def test_a_single_pair_has_a_ratio_and_no_interval() -> None:
    (found,) = ratios([trial("autoregressive", 0, 3.0), trial("chain", 0, 1.0)])
    assert found.speedup == pytest.approx(3.0)
    assert (found.low, found.high, found.within, found.between) == (None, None, None, None)


def test_of_several_plain_ways_the_one_that_is_fastest_on_the_whole_counts() -> None:
    """Not the luckiest of each repeat, which would make every configuration look slow."""
    made = [
        *(trial("autoregressive", r, s, " slow") for r, s in enumerate((2.0, 1.4))),
        *(trial("autoregressive", r, s, " fast") for r, s in enumerate((1.5, 1.5))),
        *(trial("chain", r, 0.5) for r in range(2)),
    ]
    (found,) = ratios(made)
    assert found.speedup == pytest.approx(3.0)


def test_phones_are_never_compared_with_each_other() -> None:
    made = [trial("autoregressive", 0, 2.0, device="pixel8"), trial("chain", 0, 1.0, device="oneplus12")]
    assert ratios(made) == []


def test_a_prompt_that_one_side_lacks_is_left_out() -> None:
    plain, chain = trial("autoregressive", 0, 2.0), trial("chain", 0, 1.0)
    assert chain.result is not None
    chain.result["requests"][0]["tpot_s"] = None  # it stopped after one token
    (found,) = ratios([plain, chain])
    assert found.prompts == 2
    assert found.speedup == pytest.approx(2.0)
