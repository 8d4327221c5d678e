"""What a test or a person can do to a phone over its control socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from device_agent.virtual.answers import Answer
from device_agent.virtual.auth import Access, Policy
from device_agent.virtual.listener import Listener


@dataclass(frozen=True)
class Faults:
    listener: Listener
    access: Access

    def commands(self) -> dict[str, Callable[[list[str]], Answer]]:
        return {
            "cut": self._cut,
            "offline": self._offline,
            "unauthorized": self._unauthorized,
            "authorize": self._authorize,
        }

    def _cut(self, _: list[str]) -> Answer:
        """All TCP connections end at once."""
        self.listener.cut()
        return 0, ""

    def _offline(self, words: list[str]) -> Answer:
        """`offline SECONDS`: cut, and refuse connections for so long."""
        try:
            seconds = float(words[0])
        except (IndexError, ValueError):
            return 2, f"offline takes a number of seconds, got {words}\n"
        self.listener.go_offline(seconds)
        return 0, ""

    def _unauthorized(self, _: list[str]) -> Answer:
        """Forget every key; hosts are asked for theirs and wait."""
        self.access.policy = Policy.ASK
        self.access.revoke_all()
        self.listener.cut()
        return 0, ""

    def _authorize(self, _: list[str]) -> Answer:
        """Allow the keys that wait, and from now on every key that is offered."""
        self.access.policy = Policy.ACCEPT
        self.listener.allow_offered_keys()
        return 0, ""
