"""The bounded part of `make chaos`: processes of every kind are killed while a sweep runs; it ends as undisturbed."""

from __future__ import annotations

import pytest

from tests.chaos.run import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # two minutes, more on a busy machine


def test_a_farm_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice() -> None:
    report = main(seed=7, kills=10, trials=16, phones=2, within_s=90.0)
    print(report)
    assert report.wrong == []
    assert report.total >= 3, report  # a busy machine gets through few
