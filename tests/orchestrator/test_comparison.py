from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.protocol import ExactnessCount, RequestResult
from orchestrator.comparison import compare, describe, judge, total
from orchestrator.entities import Trial
from tests.fakes import trials as fake

IDS = [7, 8, 9, 10]


def done(name: str, strategy: str, requests: list[RequestResult], tpot: float = 0.5, **spec: Any) -> Trial:
    return fake.done(
        fake.spec(name, strategy=strategy, **spec), fake.result(name, requests, {"tpot_s": tpot}, {"io_mode": "direct"})
    )


@pytest.mark.parametrize(
    ("ours", "reference", "said", "counts"),
    [
        (fake.request(IDS, None, fake.exact(4)), fake.request(IDS), "exact 4/4, ties 0", (4, 0, 0)),
        (fake.request(IDS, None, fake.exact(3, ties=1)), fake.request(IDS), "exact 3/4, ties 1", (3, 1, 0)),
        # the texts part at a near tie that the agent's own pass decided as we did
        (
            fake.request(IDS, [1, 0.005, 1, 1], fake.exact(4)),
            fake.request([7, 1, 2, 3]),
            "exact 3/4, ties 1",
            (3, 1, 0),
        ),
        # … or that only the reference's margin shows
        (fake.request(IDS, None, fake.exact(4)), fake.request([7, 8, 1], [1, 1, 0.01]), "exact 3/4, ties 1", (3, 1, 0)),
        # the same near tie is not counted twice
        (fake.request(IDS, [1, 0, 1, 1], fake.exact(3, ties=1)), fake.request([7, 1]), "exact 3/4, ties 1", (3, 1, 0)),
        (fake.request(IDS, None, fake.exact(4)), fake.request([7, 8, 1, 2]), "DIVERGED@2", (3, 0, 1)),
        (fake.request(IDS, None, fake.exact(2, diverged=2, at=2)), fake.request(IDS), "DIVERGED@2", (2, 0, 2)),
        (fake.request(IDS, None, fake.exact(3, diverged=1, at=3)), fake.request([7, 1]), "DIVERGED@1", (3, 0, 1)),
        # without the agent's own pass nothing is known after the first difference
        (fake.request(IDS), fake.request(IDS), "exact 4/4, ties 0", (4, 0, 0)),
        (fake.request(IDS, [1, 1, 0, 1]), fake.request([7, 8, 1, 1]), "exact 2/4, ties 1", (2, 1, 0)),
        (fake.request(IDS), fake.request([7, 8, 1, 1]), "DIVERGED@2", (2, 0, 1)),
        # one text goes on where the other stopped
        (fake.request(IDS), fake.request(IDS[:2], stop_reason="stop_token"), "DIVERGED@2", (2, 0, 1)),
        (fake.request(IDS[:2], stop_reason="kv_full"), fake.request(IDS), "exact 2/2, ties 0", (2, 0, 0)),
    ],
)
def test_exactness(ours: RequestResult, reference: RequestResult, said: str, counts: tuple[int, int, int]) -> None:
    metrics, tags = compare(done("c", "chain", [ours]), [done("a", "autoregressive", [reference])])
    assert tags == {"exactness": said}
    assert (metrics["exact_tokens"], metrics["tie_tokens"], metrics["diverged_tokens"]) == counts


def test_speedup_is_against_the_same_phones_baseline() -> None:
    chain = done("c", "chain", [fake.request(IDS)], tpot=0.5)
    baseline = done("a", "autoregressive", [fake.request(IDS)], tpot=1.5)
    other = done("b", "autoregressive", [fake.request(IDS)], tpot=9.0, device="pixel8")
    assert compare(chain, [other, baseline])[0]["speedup_over_autoregressive"] == 3.0
    assert compare(chain, [other]) == ({}, {})
    assert compare(chain, []) == ({}, {})


def test_a_baseline_with_other_settings_gives_exactness_but_no_speedup() -> None:
    resident = fake.spec("r", strategy="autoregressive")
    labels = {**resident.labels, "storage": "resident", "baseline_key": "another"}
    reference = done("r", "autoregressive", [fake.request([1])], labels=labels)
    metrics, tags = compare(done("c", "chain", [fake.request([2])]), [reference])
    assert tags["exactness"] == "DIVERGED@0"
    assert "speedup_over_autoregressive" not in metrics


def test_resident_decoding_is_preferred_as_reference() -> None:
    labels = {**fake.spec("r").labels, "strategy": "autoregressive", "storage": "resident", "baseline_key": "another"}
    resident = done("r", "autoregressive", [fake.request([2])], labels=labels)
    flash = done("a", "autoregressive", [fake.request([1])], tpot=1.0)
    metrics, tags = compare(done("c", "chain", [fake.request([2])]), [flash, resident])
    assert tags["exactness"] == "exact 1/1, ties 0"
    assert metrics["speedup_over_autoregressive"] == 2.0


def test_the_fastest_baseline_is_compared_with() -> None:
    slow, quick = (
        done(name, "autoregressive", [fake.request(IDS)], tpot=tpot) for name, tpot in (("a", 3.0), ("b", 1.0))
    )
    chain = done("c", "chain", [fake.request(IDS)])
    assert compare(chain, [slow, quick]) == compare(chain, [quick, slow])
    assert compare(chain, [slow, quick])[0]["speedup_over_autoregressive"] == 2.0


def test_the_baseline_is_its_own_reference() -> None:
    metrics, tags = compare(done("a", "autoregressive", [fake.request(IDS, None, fake.exact(4))]), [])
    assert metrics["speedup_over_autoregressive"] == 1.0
    assert tags == {"exactness": "exact 4/4, ties 0"}


def test_position_of_the_first_request_that_diverged() -> None:
    requests = [fake.request(IDS, id="a"), fake.request(IDS, id="b"), fake.request(IDS, id="c")]
    wrong = [requests[0], fake.request([7, 8, 9, 1], id="b"), fake.request([1, 8, 9, 1], id="c")]
    metrics, tags = compare(done("c", "chain", requests), [done("a", "autoregressive", wrong)])
    assert tags == {"exactness": "DIVERGED@3"}
    assert metrics["diverged_tokens"] == 2


counts = st.builds(
    lambda ids, ties, diverged: (ids, min(ties, len(ids)), min(diverged, len(ids) - min(ties, len(ids)))),
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 12),
)


@given(counts, st.lists(st.integers(0, 3), max_size=12), st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_counts_never_exceed_the_text(
    drawn: tuple[list[int], int, int], reference: list[int], margins: list[float]
) -> None:
    ids, ties, diverged = drawn
    count = ExactnessCount(len(ids) - ties - diverged, ties, diverged, 0 if diverged else None, 0.5)
    ours = fake.request(ids, margins[: len(ids)], count)
    judged = judge(ours, fake.request(reference, margins[: len(reference)]))
    assert judged.exact + judged.ties + judged.diverged - judged.total in (0, 1)
    assert judged.total == len(ids)
    assert judged.ties - ties in (0, 1)
    assert judged.diverged - diverged in (0, 1)
    assert (judged.diverged_at is None) == (judged.diverged == 0)
    assert describe(total([judged])).startswith("DIVERGED@" if judged.diverged else "exact ")


@given(st.lists(st.integers(0, 50), max_size=20), st.lists(st.floats(0, 1), min_size=20, max_size=20))
def test_equal_texts_are_exact_whatever_the_margins(ids: list[int], margins: list[float]) -> None:
    judged = judge(fake.request(ids, margins[: len(ids)]), fake.request(ids, margins[: len(ids)]))
    assert (judged.exact, judged.ties, judged.diverged) == (len(ids), 0, 0)
