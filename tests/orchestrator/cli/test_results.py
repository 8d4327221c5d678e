from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from orchestrator import table
from orchestrator.cli import results_view
from orchestrator.cli.results import choose, to_json
from orchestrator.errors import UnknownName
from orchestrator.ratios import ratios
from orchestrator.registry.contract import Registry
from tests.fakes import farms, sweeps
from tests.fakes import trials as fake

METRICS = {"tpot_s": 0.864, "ttft_s": 3.1, "tokens_per_s": 1.157, "acceptance_length": 4.3, "energy_j_per_token": 1.07}


def ran() -> tuple[Registry, list[table.Row]]:
    registry = farms.farm()
    good, bad = fake.spec("good"), fake.spec("bad", device="pixel8")
    sweep = farms.submit(registry, "speedy", [bad, good])
    farms.finish(registry, good, METRICS)
    farms.fail(registry, bad, "no \x1b[31mspace [bold]left\nnow")
    registry.set_derived("good", {"speedup_over_autoregressive": 2.03}, {"exactness": "exact 32/32, ties 0"})
    return registry, table.rows(registry.trials(sweep.sweep_id), registry.devices())


def shown(rows: Sequence[table.Row], width: int) -> str:
    out = io.StringIO()
    results_view.print_sweep(Console(file=out, width=width), "speedy", rows)
    return out.getvalue()


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    _, rows = ran()
    text = shown(rows, 160)
    for word in ("oneplus12 (virtual)", "chain k=5", "3.10", "0.864", "4.30", "2.03×", "exact 32/32, ties 0"):
        assert word in text
    assert "500 MB/s cap" in text
    assert "power model" in text
    assert "failed: pixel8 (virtual) qwen-coder chain k=5 (bad): disk_full" in text


def test_text_of_a_phone_is_shown_as_it_is_and_moves_nothing() -> None:
    text = shown(ran()[1], 160)
    assert "\x1b" not in text
    assert "[bold]left" in text


def test_numbers_stay_whole_on_a_narrow_terminal() -> None:
    rows = [r for r in ran()[1] if r.state == "done"]
    text = shown(rows, 80)
    assert "0.864" in text
    assert "2.03×" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_empty_sweep_is_no_error() -> None:
    assert "no trials" in shown([], 80)


def test_json_has_flat_trials_in_submitted_order() -> None:
    registry, rows = ran()
    decoded = json.loads(to_json(registry.sweep("speedy"), rows, []))
    assert decoded["sweep"] == "speedy"
    bad, good = decoded["trials"]
    assert (bad["trial"], bad["state"], bad["failure_kind"]) == ("bad", "failed", "disk_full")
    assert good["speedup_over_autoregressive"] == 2.03
    assert good["verdict"] == "valid"
    assert good["simulated"] == "virtual-phone,battery"


def test_without_a_name_the_newest() -> None:
    registry, _ = ran()
    farms.submit(registry, "newer", [])
    sweep, others = choose(registry, None)
    assert (sweep.name, others) == ("newer", ["speedy"])


def test_unknown_and_no_sweep_at_all() -> None:
    registry, _ = ran()
    with pytest.raises(UnknownName) as error:
        choose(registry, "spedy")
    assert "speedy" in error.value.message + error.value.remedy
    with pytest.raises(UnknownName, match="no sweep yet"):
        choose(farms.farm(), None)


def test_repeats_have_a_table_of_ratios_with_intervals() -> None:
    registry, sweep = sweeps.repeated()
    trials = registry.trials(sweep.sweep_id)
    rows, found = table.rows(trials, registry.devices()), ratios(trials)
    out = io.StringIO()
    results_view.print_sweep(Console(file=out, width=200), "repeated", rows, found)
    assert "2.10×" in out.getvalue()
    assert "95 % interval" in out.getvalue()
    decoded = json.loads(to_json(sweep, rows, found))
    assert decoded["ratios"][0]["low"] < 2.1 < decoded["ratios"][0]["high"]
