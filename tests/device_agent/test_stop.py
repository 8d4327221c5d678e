"""Ending the agent's process in mid-run, from within and from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from device_agent.protocol import StorageSpec
from device_agent.run import run
from device_agent.stop import stop
from tests.fakes.agent_jobs import AGENT, CHAIN, PLAIN, job, lines, tiny

__all__ = ["job", "tiny"]


def started_as_on_a_phone(folder: Path) -> subprocess.Popen[bytes]:
    """By a shell that leads its own process group and notes who it is."""
    script = 'cut -d" " -f22 /proc/$$/stat >born; echo $$ >pid; "$@"; echo $? >rc'
    command = ["sh", "-c", script, "sh", *AGENT, "run", str(folder)]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


def decoding(folder: Path) -> bool:
    file = folder / "rounds.jsonl"
    return file.is_file() and file.stat().st_size > 0


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        os.sched_yield()


LONG = replace(CHAIN, n_ctx=2048, storage=StorageSpec("flash", flash_bandwidth_mb_s=1.0, chunk_kib=16))


def test_sigterm_in_mid_run_ends_cleanly_and_the_job_can_run_again(job: Callable[..., Path]) -> None:
    folder = job(LONG, max_new_tokens=1500)
    process = subprocess.Popen([*AGENT, "run", str(folder)])
    until(lambda: decoding(folder), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    assert not (folder / "result.json").exists()
    assert lines(folder / "events.jsonl")[-1]["data"]["kind"] == "terminated"
    job(PLAIN)
    assert run(folder) == 0


def test_stop_ends_the_group_and_no_other(job: Callable[..., Path]) -> None:
    folder = job(LONG, max_new_tokens=1500)
    process = started_as_on_a_phone(folder)
    until(lambda: decoding(folder), process)
    born = (folder / "born").read_text()
    (folder / "born").write_text("1")  # a stranger got the number
    assert not stop(folder)
    assert process.poll() is None
    (folder / "born").write_text(born)
    stopping = subprocess.Popen([*AGENT, "stop", str(folder)])
    assert process.wait(20) != 0
    assert stopping.wait(20) == 0
    assert not stop(folder)
