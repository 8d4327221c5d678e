"""Ctrl-C: asked once on a terminal, detached elsewhere, never lost."""

import io
import sys

import pytest
from rich.console import Console

from orchestrator.entities import TrialState
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.sweeps.interrupt import ask_and_leave
from tests.fakes import farm


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def leave(monkeypatch: pytest.MonkeyPatch, answer: str | BaseException, terminal: bool = True) -> tuple[str, str]:
    """(state of the waiting trial, what was said)"""
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    sweep = farm.submit(registry, "t1").sweep
    monkeypatch.setattr(sys, "stdin", Terminal() if terminal else io.StringIO())
    out = io.StringIO()

    def reply(_question: str) -> str:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    ask_and_leave(registry, sweep, "ray", Console(file=out, force_terminal=terminal, width=200), reply)
    return registry.trial("t1").state.value, out.getvalue()


@pytest.mark.parametrize(("answer", "state"), [("c", "cancelled"), ("d", "waiting"), ("", "waiting")])
def test_a_person_chooses(monkeypatch: pytest.MonkeyPatch, answer: str, state: str) -> None:
    assert leave(monkeypatch, answer)[0] == state


def test_a_second_ctrl_c_detaches(monkeypatch: pytest.MonkeyPatch) -> None:
    state, said = leave(monkeypatch, KeyboardInterrupt())
    assert state == TrialState.WAITING
    assert "detached: sweep s goes on" in said


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    state, said = leave(monkeypatch, AssertionError("asked"), terminal=False)
    assert state == TrialState.WAITING
    assert "detached" in said
