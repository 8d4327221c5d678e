"""An open service of a phone: bytes both ways; a command that runs in one. Raises LinkDown, DeadlinePassed, NotAdb."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    @property
    def max_payload(self) -> int:
        """The longest `data` that send() takes."""
        ...

    def send(self, data: bytes | memoryview) -> bytes:
        """All of it; returns what the phone said meanwhile, often nothing."""
        ...

    def receive(self) -> bytes:
        """The next bytes, at least one; raises LinkDown when the phone closed the stream."""
        ...

    def close(self) -> None: ...


class RunningCommand(Protocol):
    def write(self, data: bytes) -> None: ...

    def end(self) -> tuple[int, bytes]:
        """Exit code and merged output, once its end is seen."""
        ...

    def close(self) -> None: ...
