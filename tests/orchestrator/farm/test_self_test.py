"""The self-test of a registration: the real agent and a real tiny model, there and here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import device_agent
from orchestrator.errors import CommandFailed, PhoneUnsuitable
from orchestrator.farm import runtimes
from orchestrator.farm.self_test import OTHER_CPU, compared, run_self_test
from orchestrator.models.tiny_model import write_tiny_pack
from orchestrator.settings import Settings
from tests.fakes.bench import Bench
from tests.fakes.shell_agent import shell_agent


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home", "", "", "here")


def test_the_phone_computes_what_this_host_computes(bench: Bench, settings: Settings) -> None:
    said = run_self_test(bench.device, bench.connect, settings)
    assert said == "39 logits of a tiny model equal this host's, and its 3 texts too"
    assert list(bench.file("jobs").iterdir()) == [], "its job is removed"
    assert list((settings.home / "generate").iterdir()) == []


@pytest.mark.parametrize(
    ("tampering", "said"),
    [
        ('s/"margins": \\[[0-9]/&7/', r"margin at token 0 is \S+ there and \S+ here"),
        ('s/"output_ids": \\[./"output_ids": [9/', "and the texts differ"),
        ('s/"top5_after_prompt": \\[\\[[0-9]/"top5_after_prompt": [[7/', "logit of token . is inf there"),
    ],
)
def test_a_phone_that_computes_otherwise_is_refused(
    tampering: str, said: str, bench: Bench, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real agent computes, and what it found is changed on its way."""
    source = Path(device_agent.__file__).parent.parent
    run = f'PYTHONPATH="{source}" "{sys.executable}" -P -m device_agent "$@"'
    parcel = shell_agent(tmp_path / "bundle", f"{run}\nsed -i '{tampering}' \"$2/result.json\"", b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: parcel)
    with pytest.raises(PhoneUnsuitable, match=f"computes otherwise than this host: .*{said}"):
        run_self_test(bench.device, bench.connect, settings)


def test_an_agent_that_does_not_run_is_told_with_its_last_words(
    bench: Bench, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = shell_agent(tmp_path / "bundle", "echo 'no such instruction'; exit 132", b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: parcel)
    with pytest.raises(CommandFailed, match=r"did not run the tiny model: agent_crashed: .*no such instruction"):
        run_self_test(bench.device, bench.connect, settings)


def test_the_tiny_pack_is_always_the_same(tmp_path: Path) -> None:
    first, second = write_tiny_pack(tmp_path / "a"), write_tiny_pack(tmp_path / "b")
    assert first == second
    assert sum(file.stat().st_size for file in (tmp_path / "a" / first).iterdir()) < 1_000_000


def _result(output_ids: list[int], margins: list[float]) -> Any:
    """As much of a JobResult as is compared."""
    logits = ((0, 5.0), (1, -5.0))
    one = SimpleNamespace(id="0", top5_after_prompt=logits, output_ids=output_ids, margins=margins)
    return cast(Any, SimpleNamespace(requests=[one]))


def test_another_processor_may_choose_otherwise_at_a_tie_only() -> None:
    here = _result([3, 0, 0], [4.0, 0.05, 3.0])
    tied = _result([3, 1, 4], [4.1, 0.1, 0.2])  # after the tie its past is another one
    assert "4 logits of a tiny model differ" in compared(tied, here, OTHER_CPU)
    assert "part from this host's at ties only" in compared(tied, here, OTHER_CPU)
    with pytest.raises(PhoneUnsuitable, match=r"margin at token 1 is -0\.3 there and 0\.05 here, and the texts differ"):
        compared(_result([3, 1, 4], [4.0, 0.3, 3.0]), here, OTHER_CPU)
    with pytest.raises(PhoneUnsuitable, match="the texts differ"):
        compared(tied, here, 0.0)
