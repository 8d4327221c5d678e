"""Virtual phones for tests: real processes on loopback, each with a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from device_agent.virtual.ask import ask

_START_DEADLINE_S = 20


@dataclass
class FakePhone:
    root: Path
    name: str
    profile: str
    process: subprocess.Popen[bytes]
    described: dict[str, Any]  # phone.json

    @property
    def port(self) -> int:
        return int(self.described["port"])

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"tcp:{self.endpoint}"

    @property
    def model(self) -> str:
        return "CPH2581"  # of the oneplus12

    @property
    def serial(self) -> str:
        return str(self.described["serial"])

    def path(self, remote: str) -> Path:
        """Where a path of the phone lies on the host."""
        return self.root / remote.lstrip("/")

    def cut(self) -> None:
        """All TCP connections end at once; jobs go on."""
        self.tell("cut")

    def offline(self, seconds: float) -> None:
        """Cut, and refuse connections for so long."""
        self.tell("offline", str(seconds))

    def unauthorized(self) -> None:
        """Forget all keys; hosts wait until authorize()."""
        self.tell("unauthorized")

    def authorize(self) -> None:
        """Allow the keys that wait, and later ones as they are offered."""
        self.tell("authorize")

    def tell(self, *words: str) -> str:
        code, text = ask(self.root, *words)
        assert code == 0, text
        return text

    def refuses(self, *words: str) -> str:
        code, text = ask(self.root, *words)
        assert code == 1, text
        return text

    def until(self, condition: Callable[[], object], deadline_s: float = 20.0) -> None:
        end = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end, f"phone {self.name}: not within {deadline_s:g} s"
            time.sleep(0.02)

    def stop(self) -> None:
        """SIGTERM; the phone ends its jobs too."""
        self.process.terminate()
        self.process.wait(timeout=_START_DEADLINE_S)


PhoneFactory = Callable[..., FakePhone]


def start_phone(root: Path, name: str = "phone", profile: str = "oneplus12", *arguments: str) -> FakePhone:
    """Start a phone in `root` and wait until it listens; the caller stops it."""
    words = [sys.executable, "-m", "device_agent.virtual", "--root", str(root), "--name", name, "--profile", profile]
    process = subprocess.Popen([*words, *arguments])
    deadline = time.monotonic() + _START_DEADLINE_S
    described = root / "phone.json"
    while not described.exists():
        assert process.poll() is None, f"virtual phone {name} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"virtual phone {name} does not listen"
        time.sleep(0.01)
    return FakePhone(root, name, profile, process, json.loads(described.read_text()))


@pytest.fixture
def virtual_phone(tmp_path: Path) -> Iterator[PhoneFactory]:
    """Factory: `virtual_phone(name="phone", profile="oneplus12", *arguments)`; all are stopped at the end."""
    phones: list[FakePhone] = []

    def make(name: str = "phone", profile: str = "oneplus12", *arguments: str) -> FakePhone:
        phones.append(start_phone(tmp_path / name, name, profile, *arguments))
        return phones[-1]

    yield make
    for phone in phones:
        phone.stop()
