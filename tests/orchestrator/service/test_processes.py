import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.processes import end, find, identify, working_in

Start = Callable[..., subprocess.Popen[str]]
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_another_process_at_the_same_pid_is_not_ours(start: Start) -> None:
    ours = identify(start(SLEEP).pid)
    assert find(ours) is not None
    assert find(replace(ours, started=ours.started - 60)) is None


def test_a_zombie_does_not_live(start: Start) -> None:
    process = start(SLEEP)
    ours = identify(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet asked for
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert find(ours) is None


def test_finds_orphans_of_the_session_in_the_folder_and_nobody_else(start: Start, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "farm", tmp_path / "farm-2"
    folder.mkdir()
    elsewhere.mkdir()
    child = f"{sys.executable} -c 'print(\"up\", flush=True); import time; time.sleep(600)' & wait"
    parent = start(["sh", "-c", child], cwd=folder, start_new_session=True)
    decoys = [start(SLEEP, cwd=folder), start(SLEEP, cwd=elsewhere, start_new_session=True)]
    assert len(working_in(str(folder), parent.pid)) == 2
    parent.kill()
    parent.wait()
    folder.rmdir()
    (orphan,) = working_in(str(folder), parent.pid)
    assert orphan.pid != parent.pid
    assert end([orphan], 5.0) == 1
    assert working_in(str(folder), parent.pid) == []
    assert [decoy.poll() for decoy in decoys] == [None, None]


def test_end_kills_what_does_not_listen(start: Start) -> None:
    process = start(STUBBORN)
    assert end([psutil.Process(process.pid)], 0.2) == 1
    assert process.wait(5) == -9


def test_end_does_not_wait_for_zombies(start: Start) -> None:
    process = start(SLEEP)
    began = time.monotonic()
    assert end([psutil.Process(process.pid)], 60.0) == 1
    assert time.monotonic() - began < 30.0
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
