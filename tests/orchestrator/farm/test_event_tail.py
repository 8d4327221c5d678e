from __future__ import annotations

import json
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.farm import event_tail
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.event_tail import EventTail


class GrowingFile:
    """The part of a transport that reads, over bytes that a test appends to."""

    def __init__(self) -> None:
        self.data = b""

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        assert remote == "/phone/jobs/t.1/events.jsonl"
        return self.data[offset : offset + max_bytes]


def line(number: int, text: str) -> bytes:
    return json.dumps({"kind": "progress", "time_s": float(number), "data": {"text": text}}).encode() + b"\n"


@given(st.lists(st.text(max_size=40), max_size=12), st.lists(st.integers(1, 120), max_size=30), st.integers(128, 400))
def test_every_event_once_however_the_file_grows(texts: list[str], pieces: list[int], window: int) -> None:
    whole = b"".join(line(number, text) for number, text in enumerate(texts))
    file, tail, seen = GrowingFile(), EventTail("/phone", "t.1"), []
    windows, event_tail.WINDOW = event_tail.WINDOW, max(window, max(map(len, whole.splitlines(True)), default=1))
    try:
        for piece in [*pieces, len(whole)]:
            file.data = whole[: len(file.data) + piece]
            seen += tail.new(cast(Transport, file))
    finally:
        event_tail.WINDOW = windows
    assert [event["data"]["text"] for event in seen] == texts


def test_lines_that_are_no_events_are_skipped() -> None:
    file, tail = GrowingFile(), EventTail("/phone", "t.1")
    file.data = b'{"kind": 1}\nnot json\n\xff\xfe\n[]\n' + line(1, "good") + b'{"kind": "half'
    assert [event["data"]["text"] for event in tail.new(cast(Transport, file))] == ["good"]
    assert tail.new(cast(Transport, file)) == []


def test_a_line_without_end_does_not_stop_the_tail() -> None:
    file, tail = GrowingFile(), EventTail("/phone", "t.1")
    file.data = b"x" * (event_tail.WINDOW + 10) + b"\n" + line(1, "after")
    assert [event["data"]["text"] for event in tail.new(cast(Transport, file))] == ["after"]
