"""The agent as a process of this machine, without a farm: what a phone would run, in a job folder under LEVER_HOME."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from device_agent.protocol import STATES, AgentEvent, JobResult, JobSpec, from_json, to_json
from orchestrator.errors import LeverError
from orchestrator.settings import Settings

POLL_S = 0.1
BAD_INPUT = {"bad_spec", "budget_too_small"}


def run_here(
    settings: Settings, spec: JobSpec, on_event: Callable[[AgentEvent], None], states: Path | None = None
) -> JobResult:
    """Run `spec` and return its good result. Raises LeverError with the agent's reason; the job folder stays then.

    `states`: where recorded states go, if there are any.
    """
    jobs = settings.home / "generate"
    jobs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=jobs))
    (folder / "spec.json").write_text(json.dumps(to_json(spec)))
    with _agent(folder) as process:
        _follow(process, folder / "events.jsonl", on_event)
    result = _result(folder)
    if result is None or not result.ok:
        raise _failed(folder, process.returncode, result)
    if states is not None and (folder / STATES).exists():
        shutil.move(folder / STATES, states)
    shutil.rmtree(folder)
    return result


@contextmanager
def _agent(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The agent running; it ends with the block, also on Ctrl-C."""
    command = [sys.executable, "-P", "-m", "device_agent", "run", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _follow(process: subprocess.Popen[bytes], events: Path, on_event: Callable[[AgentEvent], None]) -> None:
    """Hand on each event as it is written, until the agent has ended."""
    offset, running = 0, True
    while running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
        running = process.poll() is None
        lines = _whole_lines(events, offset)
        offset += len(lines)
        for line in lines.splitlines():
            on_event(from_json(AgentEvent, json.loads(line)))


def _whole_lines(file: Path, offset: int) -> bytes:
    if not file.is_file():
        return b""
    data = file.read_bytes()[offset:]
    return data[: data.rfind(b"\n") + 1]


def _result(folder: Path) -> JobResult | None:
    file = folder / "result.json"
    return from_json(JobResult, json.loads(file.read_bytes())) if file.is_file() else None


def _failed(folder: Path, code: int, result: JobResult | None) -> LeverError:
    if result is not None and result.error is not None:
        if result.error.kind in BAD_INPUT:
            shutil.rmtree(folder)
            return LeverError(result.error.message)
        return LeverError(f"{result.error.kind}: {result.error.message}", f"Details: {folder / 'result.json'}")
    tail = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    return LeverError(f"the agent ended with exit code {code}: {tail[0]}", f"Its log: {folder / 'log'}")
