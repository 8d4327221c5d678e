from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from orchestrator import table, table_view
from orchestrator.entities import TrialState
from orchestrator.table import Row
from tests.fakes import trials as fake


def a_row(name: str = "c", strategy: str = "chain", **changes: object) -> Row:
    return dataclasses.replace(
        table.row(fake.done(fake.spec(name, strategy=strategy)), fake.phone()),
        **changes,  # type: ignore[arg-type]  # any field of Row
    )


def test_labels_say_what_is_virtual_and_capped() -> None:
    row = a_row()
    assert (row.phone, row.strategy, row.storage) == ("oneplus12 (virtual)", "chain k=5", "flash, 500 MB/s cap")
    assert row.tags["simulated"] == "virtual-phone,battery"
    assert row.metrics["attempt_wall_s"] == 12.5


@pytest.mark.parametrize(
    ("cap", "profile", "label"),
    [
        (500.0, 3500.0, "flash, 500 MB/s cap"),
        (4000.0, 3500.0, "flash, 3500 MB/s profile"),
        (None, 3500.0, "flash, 3500 MB/s profile"),
        (500.0, None, "flash, 500 MB/s cap"),
        (None, None, "flash"),
        (3500.0, 3500.0, "flash, 3500 MB/s cap"),
    ],
)
def test_the_lower_of_cap_and_profile_is_in_force(cap: float | None, profile: float | None, label: str) -> None:
    job = {
        "engine": {"storage": {"mode": "flash", "flash_bandwidth_mb_s": cap}},
        "flash_profile_mb_s": profile,
    }
    assert table.storage_label(job, {}) == label


def test_the_phones_own_word_on_its_flash_counts() -> None:
    job = {"engine": {"storage": {"mode": "flash", "flash_bandwidth_mb_s": 5000.0}}}
    assert table.storage_label(job, {"flash_cap_mb_s": "3500"}) == "flash, 3500 MB/s profile"


def test_a_void_figure_stays_and_says_so() -> None:
    row = a_row(metrics={"energy_j_per_token": 0.5}, tags={"energy_method": "model", "void.energy_j_per_token": "hot"})
    assert "0.50 void" in table_view.cells([row])[0]


def test_a_real_phone_is_not_called_virtual() -> None:
    row = table.row(fake.done(fake.spec("c")), dataclasses.replace(fake.phone(), kind="tcp"))
    assert row.phone == "oneplus12"
    assert "simulated" not in row.tags


@pytest.mark.parametrize(
    ("tags", "verdict"),
    [
        ({"exactness": "exact 4/4, ties 0"}, "valid"),
        ({"exactness": "DIVERGED@3"}, "void:diverged"),
        ({"void.energy": "charging", "exactness": "DIVERGED@3"}, "void:diverged, energy charging"),
    ],
)
def test_verdict(tags: dict[str, str], verdict: str) -> None:
    assert table.verdict(tags) == verdict


def test_a_record_has_engine_keys_and_no_tag_hides_a_label() -> None:
    outcome = fake.result("c", (), {"tpot_s": 0.5, "new_metric": 1.0}, {"trial": "spoofed", "io_mode": "direct"})
    record = table.record(table.row(fake.done(fake.spec("c"), outcome)))
    assert record["trial"] == "c"
    assert record["tpot_s"] == 0.5
    assert record["new_metric"] == 1.0
    assert "energy_j_per_token" not in record


def test_csv_has_every_engine_column_and_quotes_what_it_must() -> None:
    failed = a_row("f", state="failed", metrics={}, failure_kind="io_error", failure_message='a, "b"\nc')
    rows = list(csv.DictReader(io.StringIO(table.to_csv([a_row(), failed]))))
    assert set(table.METRICS) <= set(rows[0])
    assert float(rows[0]["tpot_s"]) == 0.5
    assert rows[1]["failure_message"] == 'a, "b"\nc'
    assert rows[1]["tpot_s"] == ""


def test_csv_of_nothing_is_a_heading() -> None:
    assert table.to_csv([]).count("\n") == 1


def test_what_all_rows_share_is_said_once() -> None:
    rows = [a_row("a", "autoregressive"), a_row("c")]
    headings = [c.heading for c in table_view.columns(rows)]
    assert headings[:2] == ["phone", "strategy"]
    assert ("storage", "flash, 500 MB/s cap") in table_view.shared(rows)
    mixed = [*rows, a_row("r", storage="resident")]
    assert "storage" in [c.heading for c in table_view.columns(mixed)]
    assert "storage" not in dict(table_view.shared(mixed))


def test_overrides_and_repeats_show_only_where_they_tell_rows_apart() -> None:
    twice = [a_row("a", repeat=0), a_row("b", repeat=1)]
    assert "repeat" in [c.heading for c in table_view.columns(twice)]
    assert "overrides" not in [c.heading for c in table_view.columns(twice)]


def test_energy_says_its_method() -> None:
    model = a_row(metrics={"energy_j_per_token": 0.5})
    gauge = a_row("g", metrics={"energy_j_per_token": 0.7}, tags={"energy_method": "gauge"})
    assert "J/token (model)" in [c.heading for c in table_view.columns([model])]
    assert "0.70 (gauge)" in table_view.cells([model, gauge])[1]


def test_notes_failures_and_summary() -> None:
    failed = table.row(
        dataclasses.replace(
            fake.done(fake.spec("f")),
            state=TrialState.FAILED,
            result=None,
            failure_kind="out_of_memory",
            failure_message="killed",
        ),
        fake.phone(),
    )
    rows = [a_row(), failed]
    text = " ".join(table_view.notes(rows))
    assert all(word in text for word in ("(virtual)", "J/token (model)", "cap:"))
    assert table_view.failures(rows) == [("oneplus12 (virtual) qwen-coder chain k=5 (f)", "out_of_memory: killed")]
    assert table_view.summary(rows) == "1 done, 1 failed"
    assert "verdict" not in failed.tags


def test_a_waiting_trial_says_why() -> None:
    row = a_row(state="waiting", metrics={}, tags={}, reason="phone is hot")
    assert table_view.cells([row])[0][-1] == "waiting: phone is hot"
