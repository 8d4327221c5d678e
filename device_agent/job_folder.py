"""The files of one job folder (`protocol` says which): read the spec, append events and rounds, place the result."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from device_agent.failure import AgentFailure
from device_agent.protocol import (
    PROTOCOL_VERSION,
    AgentEvent,
    JobResult,
    JobSpec,
    NodeTrace,
    RoundTrace,
    WireError,
    from_json,
    to_json,
)


def read_spec(folder: Path) -> JobSpec:
    """Raises AgentFailure(bad_spec)."""
    file = folder / "spec.json"
    try:
        spec = from_json(JobSpec, json.loads(file.read_bytes()))
    except (OSError, ValueError) as error:  # WireError and JSON errors are ValueErrors
        raise AgentFailure("bad_spec", f"{file}: {error}") from error
    if spec.version != PROTOCOL_VERSION:
        raise AgentFailure("bad_spec", f"{file}: protocol version {spec.version}, this agent speaks {PROTOCOL_VERSION}")
    return spec


def read_result(folder: Path) -> JobResult | None:
    """The result of a job that is over; None when there is none, or it is not whole."""
    try:
        return from_json(JobResult, json.loads((folder / "result.json").read_bytes()))
    except (OSError, ValueError, WireError):
        return None


def write_result(folder: Path, result: JobResult) -> None:
    """Rename a complete file into place: whoever sees result.json sees all of it."""
    temporary = folder / "result.json.tmp"
    with temporary.open("w") as file:
        json.dump(to_json(result), file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / "result.json")


class JobLog:
    """events.jsonl and rounds.jsonl, open for appending, each line flushed at once; nodes.jsonl when asked for."""

    def __init__(self, folder: Path) -> None:
        self._nodes_file = folder / "nodes.jsonl"
        self._nodes_file.unlink(missing_ok=True)  # as rounds
        self._events = (folder / "events.jsonl").open("a")
        self._rounds = (folder / "rounds.jsonl").open("w")  # rounds of an earlier start would count twice

    def event(self, kind: str, /, **data: Any) -> None:
        self._append(self._events, to_json(AgentEvent(kind, time.time(), data)))

    def round(self, trace: RoundTrace) -> None:
        self._append(self._rounds, to_json(trace))

    def nodes(self, traces: Iterable[NodeTrace]) -> None:
        """Those of one request."""
        with self._nodes_file.open("a") as file:
            file.writelines(json.dumps(to_json(trace)) + "\n" for trace in traces)

    @staticmethod
    def _append(file: Any, line: dict[str, Any]) -> None:
        file.write(json.dumps(line) + "\n")
        file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._events.close()
        self._rounds.close()
