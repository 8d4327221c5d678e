"""A whole farm in a folder of its own, driven by its command line: real processes, a tiny random model pair."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from orchestrator import wiring
from orchestrator.entities import FarmEvent
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf

T = TypeVar("T")
PAIR = "tiny"
TARGET = TinyModel(architecture="qwen2", n_ctx_train=2048)
DRAFT = TinyModel(architecture="qwen2", n_ctx_train=2048, noise=0.05)
SWEEP = ("sweep", "-m", f"pair={PAIR}", "engine=autoregressive,chain", "workload=demo", "workload.max_new_tokens=16")
STREAMED = ("engine.storage.flash_bandwidth_mb_s=1",)  # about 0.1 s a token: time enough to break something


class LiveFarm:
    def __init__(self, home: Path) -> None:
        self.home = home
        registry, mlflow = (f"sqlite:///{home / name}" for name in ("registry.db", "mlflow.db"))
        self.settings = Settings(home, registry, mlflow, socket.gethostname())
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("LEVER_", "RAY_"))}
        self.environment |= {"LEVER_HOME": str(home), "COLUMNS": "200"}

    def start(self, *args: str) -> subprocess.Popen[str]:
        """`lever …` in the background, both outputs in one pipe."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator", *args],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lever(self, *args: str, timeout_s: float = 120.0) -> str:
        """What `lever …` printed; fails the test, with that text, when it failed."""
        return output(self.start(*args), timeout_s)

    def prepare(self, *phones: str) -> None:
        """The tiny pair and these virtual phones."""
        target, draft = self.write_pair()
        self.lever("models", "add", PAIR, "--target", str(target), "--draft", str(draft))
        for phone in phones:
            self.lever("phones", "register", f"virtual:{phone}", "--name", phone)

    def write_pair(self) -> tuple[Path, Path]:
        """Files of the tiny target and draft."""
        target = write_tiny_gguf(self.home / "target.gguf", TARGET)
        return target, write_tiny_gguf(self.home / "draft.gguf", DRAFT)

    @contextlib.contextmanager
    def registry(self) -> Iterator[Registry]:
        with contextlib.closing(wiring.open_registry(self.settings)) as registry:
            yield registry


def output(process: subprocess.Popen[str], timeout_s: float = 120.0) -> str:
    try:
        text, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        raise AssertionError(f"{process.args!r} took longer than {timeout_s} s:\n{text}") from None
    assert process.returncode == 0, f"{process.args!r} ended with {process.returncode}:\n{text}"
    return text


def until(condition: Callable[[], T | None], what: str, deadline_s: float = 60.0) -> T:
    """The condition's first true value; fails the test when the deadline passes."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        threading.Event().wait(0.05)
    return value


def decoding(registry: Registry) -> FarmEvent | None:
    """An event of an attempt that is in the middle of its timed requests."""
    going = {attempt.attempt_id for attempt in registry.running()}
    warm = (e for e in registry.events(limit=100_000) if e.data.get("event") == "warmed_up")
    return next((event for event in warm if event.attempt_id in going), None)
