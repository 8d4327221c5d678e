"""From what an ended agent left in its job folder to an outcome: a checked result, or why there is none."""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from device_agent.protocol import PROTOCOL_VERSION, JobResult, WireError, from_json
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind
from orchestrator.farm import job_folder
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.agent_end import cause, disk_full, is_full
from orchestrator.farm.job_folder import JobState

COMMAND_S = 20.0
PULL_S = 120.0
RESULT_LIMIT = 16 << 20  # bytes
ROUNDS_LIMIT = 64 << 20
NODES_LIMIT = 256 << 20
LOG_TAIL = 8192


def failure(order: AttemptOrder, kind: FailureKind, message: str, log_tail: str = "") -> AttemptOutcome:
    """Every message names the phone."""
    text = f"phone {order.device.name}: {message}"
    return AttemptOutcome(order.attempt_id, failure_kind=kind, failure_message=text, log_tail=log_tail)


def collect(phone: Transport, order: AttemptOrder, state: JobState) -> AttemptOutcome:
    """Outcome of an attempt that is over. Raises PhoneUnreachable: nothing is lost then, ask again."""
    log = log_of(phone, order)
    if not state.has_result:
        job = job_folder.folder(order.device.root, order.attempt_id)
        return failure(order, *cause(phone, order.device.root, job, state.exit_code, log), log)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            result = _result(order, _pulled(phone, order, "result.json", RESULT_LIMIT, Path(scratch)))
            rounds = _pulled(phone, order, "rounds.jsonl", ROUNDS_LIMIT, Path(scratch)).decode()
            nodes, note = _nodes(phone, order, Path(scratch))
        except ValueError as error:
            if is_full(phone, order.device.root):
                return failure(order, *disk_full(), log)
            return failure(order, FailureKind.BAD_RESULT, f"the agent's result cannot be used: {error}", log)
    if result["ok"]:
        return AttemptOutcome(
            order.attempt_id, result=result, rounds_jsonl=rounds, nodes_packed=nodes, log_tail=log + note
        )
    said = result["error"] or {"kind": "engine_error", "message": "the agent gave no reason"}
    return failure(order, failure_kind(said["kind"]), said["message"], log or said.get("detail", "")[-LOG_TAIL:])


def log_of(phone: Transport, order: AttemptOrder) -> str:
    """The end of what the agent and its shell printed; empty when there is nothing."""
    job = quote(job_folder.folder(order.device.root, order.attempt_id))
    return phone.shell(f"tail -c {LOG_TAIL} {job}/log 2>/dev/null", COMMAND_S).stdout


def _pulled(phone: Transport, order: AttemptOrder, name: str, limit: int, scratch: Path) -> bytes:
    """Empty when the file is not there; raises ValueError when it is larger than `limit` bytes."""
    remote = f"{job_folder.folder(order.device.root, order.attempt_id)}/{name}"
    stat = phone.shell(f"stat -c %s {quote(remote)}", COMMAND_S)
    if stat.exit_code != 0:
        return b""
    if int(stat.stdout) > limit:
        raise ValueError(f"{name} has {int(stat.stdout)} bytes, {limit} are allowed")
    phone.pull(remote, scratch / name, PULL_S)
    return (scratch / name).read_bytes()


def _nodes(phone: Transport, order: AttemptOrder, scratch: Path) -> tuple[str, str]:
    """Packed, empty without any; and what to tell if they are too many: a good result is not lost to its trace."""
    try:
        data = _pulled(phone, order, "nodes.jsonl", NODES_LIMIT, scratch)
    except ValueError as error:
        return "", f"\nleft out: {error}; engine.trace_nodes=false writes none"
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode() if data else "", ""


def _result(order: AttemptOrder, data: bytes) -> dict[str, Any]:
    """Checked against the protocol; raises ValueError (WireError and JSON errors are such)."""
    decoded = json.loads(data, parse_constant=_no_constant)
    result = from_json(JobResult, decoded)
    if result.version != PROTOCOL_VERSION:
        raise WireError(f"protocol version {result.version}, not {PROTOCOL_VERSION}")
    unread_spec = not result.ok and not result.trial_id  # an agent that could not read its spec knows no trial
    if result.attempt_id != order.attempt_id or (result.trial_id != order.job["trial_id"] and not unread_spec):
        raise WireError(f"it belongs to attempt {result.attempt_id!r} of trial {result.trial_id!r}")
    return dict(decoded)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON knows")


def failure_kind(name: str) -> FailureKind:
    """Of an agent's or a phone's error; engine_error for a kind that we don't know."""
    return FailureKind(name) if name in {kind.value for kind in FailureKind} else FailureKind.ENGINE_ERROR
