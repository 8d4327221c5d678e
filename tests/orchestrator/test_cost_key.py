"""Pass costs are found for what they were measured with, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from device_agent.protocol import CoresSpec, to_json
from orchestrator import cost_key as module
from orchestrator.cost_key import cost_key
from orchestrator.entities import Device
from orchestrator.farm.cost_calibration import costs_job
from tests.fakes.farm import phone

PHONE = phone(facts={"fingerprint": "build-1", "flash_mb_s": 3500, "ram_mb": 8000})
JOB = costs_job("t", "d", 2, "flash")


def key(device: Device = PHONE, **changes: Any) -> str | None:
    return cost_key(device, to_json(replace(JOB, **changes)))


def with_facts(**facts: Any) -> Device:
    return replace(PHONE, facts={**PHONE.facts, **facts})


@pytest.mark.parametrize(
    "other",
    [
        key(with_facts(fingerprint="build-2")),
        key(with_facts(flash_mb_s=500)),
        key(replace(PHONE, serial="another")),
        key(target_pack="x"),
        key(draft_pack="x"),
        key(engine=costs_job("t", "d", 4, "flash").engine),
        key(engine=costs_job("t", "d", 2, "resident").engine),
        key(engine=costs_job("t", "d", 2, "flash", "auto").engine),
        key(engine=costs_job("t", "d", 2, "flash", cores=CoresSpec(auto=True)).engine),
        key(engine=costs_job("t", "d", 2, "flash", cores=CoresSpec(False, (4, 5))).engine),
        key(engine=costs_job("t", "d", 2, "flash", cores=CoresSpec(False, (), (0,))).engine),
    ],
)
def test_what_changes_costs_changes_the_key(other: str | None) -> None:
    assert other != key()


def test_another_engine_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(module, "ENGINE_VERSION", "9.9")
    assert key() != before


def test_what_does_not_does_not() -> None:
    tuned = replace(JOB.engine, strategy="lever", dram_budget_mb=900.0, n_ctx=4096)
    assert key() == key(engine=tuned, kind="decode", max_new_tokens=99) == key(with_facts(ram_mb=1))


def test_without_a_draft_there_is_nothing_to_plan() -> None:
    assert key(draft_pack=None) is None
