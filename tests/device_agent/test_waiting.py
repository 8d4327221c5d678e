from __future__ import annotations

import os

import pytest

from device_agent.waiting import set_waiting, waiting


@pytest.fixture(autouse=True)
def nothing_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("load", "said"), [(2.0, "spin"), (4.0, "spin"), (4.1, "sleep"), (60.0, "sleep")])
def test_threads_spin_where_cores_are_free(monkeypatch: pytest.MonkeyPatch, load: float, said: str) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    set_waiting()
    assert waiting() == said
    assert os.environ["OMP_WAIT_POLICY"] == "passive"  # beyond its spins, a thread sleeps


def test_an_unreadable_load_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> tuple[float, float, float]:
        raise OSError("no /proc/loadavg")

    monkeypatch.setattr(os, "getloadavg", refused)
    set_waiting()
    assert waiting() == "spin"


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "0")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    set_waiting()
    assert waiting() == "sleep"
