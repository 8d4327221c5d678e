"""Keeper of a joined host's Ray node: `python -m orchestrator.ray_runtime.member RUN TEMP_DIR`, by the supervisor.

The farm's head is on another machine and puts a worker here. When it is gone for long the node ends, and the supervisor
starts this again until it is back.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from orchestrator.errors import FarmError
from orchestrator.ray_runtime.cluster import OBJECT_STORE_BYTES
from orchestrator.ray_runtime.heartbeat import BEAT_S, Head, write_beat, write_head
from orchestrator.ray_runtime.names import LABEL
from orchestrator.settings import Settings, load

STOP_S = 20.0  # the node is drained first
STARTED = "ray_current_cluster"  # Ray writes it in its folder once its node is up


def main(run_id: str, temp_dir: str) -> None:
    """Raises FarmError when the node ends by itself."""
    settings, stop = load(), threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    Path(temp_dir).mkdir()
    node = subprocess.Popen(_words(settings, temp_dir))
    write_head(settings, Head(run_id, os.getpid()))
    try:
        _follow(settings, run_id, Path(temp_dir) / STARTED, node, stop)
    finally:
        node.terminate()
        try:
            node.wait(STOP_S)
        except subprocess.TimeoutExpired:
            node.kill()


def _follow(
    settings: Settings, run_id: str, started: Path, node: subprocess.Popen[bytes], stop: threading.Event
) -> None:
    told = False
    for count in itertools.count():
        if node.poll() is not None:
            raise FarmError(f"this host's Ray node ended with exit code {node.returncode}; is the farm gone?")
        if started.exists():
            if not told:
                write_head(settings, Head(run_id, os.getpid(), settings.joined, hosts=(settings.host,)))
                told = True
            write_beat(settings, run_id, count)
        if stop.wait(BEAT_S):
            return


def _words(settings: Settings, temp_dir: str) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
        *(f"--address={settings.joined}", f"--labels={LABEL}={settings.host}"),
        *(f"--temp-dir={temp_dir}", f"--object-store-memory={OBJECT_STORE_BYTES}"),
    ]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except FarmError as error:
        sys.exit(error.message)
