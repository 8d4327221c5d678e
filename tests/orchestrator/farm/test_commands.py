"""Every command that we ever send to a phone has run on Android's own shell and tools, and none was refused there.

The tests that send them run once more, on virtual phones with mksh and toybox, and every place in orchestrator/ that
sends one has to be among those that they came through.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.command_log import FILE, HOME

SUITES = ("tests/contracts/test_transport.py", "tests/orchestrator/farm", "tests/orchestrator/cli/test_phones.py")
SENDERS = {"shell", "read", "begin"}  # Transport's methods that become a command


@pytest.mark.by_hand
@pytest.mark.timeout(1200)
def test_every_command_runs_on_mksh_and_toybox(tmp_path: Path) -> None:
    missing = [tool for tool in ("mksh", "toybox") if not shutil.which(tool)]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing
    log = tmp_path / "commands.json"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.fakes.command_log", *SUITES]
    ran = subprocess.run(
        words, cwd=HOME, env={**os.environ, FILE: str(log)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    found = json.loads(log.read_text())
    assert found["complaints"] == []
    unsent = [f"{file}:{first}" for file, first, last in senders() if not _passed(found["lines"], file, first, last)]
    assert unsent == [], "no test sends these commands to a phone"


def senders() -> Iterator[tuple[str, int, int]]:
    """File, first and last line of each call that sends a command."""
    for path in sorted((HOME / "orchestrator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _sends(node):
                yield str(path.relative_to(HOME)), node.lineno, node.end_lineno or node.lineno


def _sends(call: ast.Call) -> bool:
    """phone.shell(…), transport.read(…), run(phone, …)"""
    first = call.args[0] if call.args else None
    if isinstance(call.func, ast.Name):
        return call.func.id == "run" and isinstance(first, ast.Name) and first.id in ("phone", "transport")
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in SENDERS:
        return False
    return isinstance(call.func.value, ast.Name) and call.func.value.id in ("phone", "transport")


def _passed(lines: dict[str, list[int]], file: str, first: int, last: int) -> bool:
    return any(first <= line <= last for line in lines.get(file, []))


def test_there_are_senders() -> None:
    assert len(list(senders())) > 15
