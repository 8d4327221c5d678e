"""Read an attempt's events.jsonl from where we stopped, whole lines only, over any number of connections."""

from __future__ import annotations

import json
from typing import Any

from device_agent.protocol import AgentEvent, WireError, from_json, to_json
from orchestrator.farm import job_folder
from orchestrator.farm.adb.contract import Transport

READ_S = 20.0
WINDOW = 256 << 10  # bytes a read


class EventTail:
    """`offset` is the first byte that was not told yet."""

    def __init__(self, root: str, attempt_id: str) -> None:
        self.path = f"{job_folder.folder(root, attempt_id)}/events.jsonl"
        self.offset = 0

    def new(self, phone: Transport) -> list[dict[str, Any]]:
        """Events since the last call, as JSON; a line that is no event is skipped. Raises PhoneError."""
        events: list[dict[str, Any]] = []
        while data := phone.read(self.path, READ_S, self.offset, WINDOW):
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) < WINDOW:
                break
            self.offset += end or WINDOW  # a line longer than the window is nothing that the agent wrote
            events += [event for line in data[:end].splitlines() if (event := _event(line)) is not None]
            if len(data) < WINDOW:
                break
        return events


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        return to_json(from_json(AgentEvent, json.loads(line)))
    except (WireError, ValueError):
        return None
