"""A pytest plugin: notes from where in orchestrator/ phones are sent commands, and what their shells complained of."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orchestrator.farm.adb.adb_server import AdbServerTransport
from orchestrator.farm.adb.adb_shell import AdbShellTransport
from orchestrator.farm.adb.stream_transport import StreamTransport

FILE = "LEVER_COMMAND_LOG"  # where to write: {"lines": {file: [line]}, "complaints": [command and output]}
HOME = Path(__file__).parents[2]
# of mksh and toybox: no such command, no such option, no such syntax
COMPLAINT = re.compile(
    r"inaccessible or not found|: not found|[Uu]nknown option|syntax error|see \S+ --help", re.MULTILINE
)

_lines: dict[str, set[int]] = {}
_complaints: list[str] = []


@pytest.hookimpl
def pytest_configure() -> None:
    for backend in (AdbShellTransport, AdbServerTransport):
        backend._run = _noted(backend._run)  # type: ignore[method-assign]
        backend.begin = _noted_begin(backend.begin)  # type: ignore[method-assign]


@pytest.hookimpl
def pytest_unconfigure() -> None:
    lines = {file: sorted(found) for file, found in sorted(_lines.items())}
    Path(os.environ[FILE]).write_text(json.dumps({"lines": lines, "complaints": _complaints}))


def _noted(run: Any) -> Any:
    def noted(self: StreamTransport, command: str) -> tuple[int, bytes]:
        code, output = run(self, command)
        if _note(sys._getframe(1)):
            text = output.decode("utf-8", "replace")
            if code == 127 or COMPLAINT.search(text):
                _complaints.append(f"{command[:300]} → {code}: {text[-300:]}")
        return code, output

    return noted


def _noted_begin(begin: Any) -> Any:
    def noted(self: StreamTransport, command: str, timeout_s: float) -> Any:
        _note(sys._getframe(1))
        return begin(self, command, timeout_s)

    return noted


def _note(frame: FrameType | None) -> bool:
    """Every line of ours that led here; whether the command is ours rather than a test's."""
    ours, first = False, True
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(f"{HOME}/orchestrator/"):
            _lines.setdefault(str(Path(file).relative_to(HOME)), set()).add(frame.f_lineno)
            ours = ours or (first and not file.startswith(f"{HOME}/orchestrator/farm/adb/"))
        elif file.startswith(f"{HOME}/tests/"):
            first = False
        frame = frame.f_back
    return ours
