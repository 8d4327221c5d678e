"""`run JOB_DIR`: a job becomes a result file and an exit code, whatever happens to it."""

from __future__ import annotations

import os
import signal
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

from device_agent.failure import NO_ROOM, AgentFailure
from device_agent.job import run_spec
from device_agent.job_folder import JobLog, read_result, read_spec, write_result
from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION, AgentError, JobResult, JobSpec

TERMINATED = 128 + signal.SIGTERM


def run(folder: Path) -> int:
    """Run the job in `folder` unless it has a result; returns 0 when the result is a good one.

    SIGTERM ends the process with exit code 143 and no result: the job may be started again.
    """
    result = read_result(folder)
    if result is None:
        signal.signal(signal.SIGTERM, _terminate)
        result = _run(folder)
        write_result(folder, result)
    return 0 if result.ok else 1


def _run(folder: Path) -> JobResult:
    with JobLog(folder) as log:
        spec: JobSpec | None = None
        try:
            log.event("started", pid=os.getpid(), engine_version=ENGINE_VERSION)
            spec = read_spec(folder)
            result = run_spec(folder, spec, log)
        except SystemExit:
            log.event("failed", kind="terminated", message="ended by SIGTERM")
            raise
        except Exception as error:  # noqa: BLE001  # every failure is reported to the host, none escapes
            failure = _described(error)
            log.event("failed", kind=failure.kind, message=failure.message)
            return _failed(folder, spec, failure)
        log.event("done")
        return result


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  # a signal handler's signature
    raise SystemExit(TERMINATED)


def _described(error: Exception) -> AgentError:
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, AgentFailure):
        return AgentError(error.kind, error.message, detail)
    if isinstance(error, MemoryError):
        return AgentError("out_of_memory", f"out of memory: {error}", detail)
    if isinstance(error, OSError):
        return AgentError("disk_full" if error.errno in NO_ROOM else "io_error", str(error), detail)
    return AgentError("engine_error", f"{type(error).__name__}: {error}", detail)


def _failed(folder: Path, spec: JobSpec | None, failure: AgentError) -> JobResult:
    return JobResult(
        version=PROTOCOL_VERSION,
        attempt_id=spec.attempt_id if spec else folder.resolve().name,
        trial_id=spec.trial_id if spec else "",
        engine_version=ENGINE_VERSION,
        ok=False,
        error=failure,
        requests=(),
        metrics={},
        tags={},
        plan={},
    )
