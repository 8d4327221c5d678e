"""Keeps Ray's head alive: starts it, watches that its controller's heart beats, starts it again with back-off."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from orchestrator.processes import ProcessId, end, identify
from orchestrator.ray_runtime import heartbeat
from orchestrator.ray_runtime.cluster import environment as ray_environment
from orchestrator.ray_token import TOKEN_BYTES, kept_token
from orchestrator.service.backoff import BackOff
from orchestrator.service.log_files import last_line, log_path, open_log
from orchestrator.service.state import Service
from orchestrator.settings import Settings, environment

SILENCE_S = 90.0  # a controller that is silent longer hangs: starting Ray takes 6–12 s, loading the rest a few
STOP_S, STRAY_S = 35.0, 5.0
LOG = "ray"
log = logging.getLogger("supervisor")


class HeadKeeper:
    """At most one head at a time; `tick` is called every second or so."""

    def __init__(self, settings: Settings, service: Service) -> None:
        self._settings, self._service = settings, service
        self._run_id, self._temp_dir = service.run_id, Path(service.temp_dir)
        self._what, self._module = (
            ("node", "orchestrator.ray_runtime.member") if service.joined else ("head", "orchestrator.ray_runtime.head")
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._back_off = BackOff()
        self._started = self._heard = 0.0  # monotonic clock
        self._beat: tuple[int, int] | None = None
        self.head: ProcessId | None = None
        self.error = ""

    @property
    def failures(self) -> int:
        return self._back_off.failures

    def tick(self, now: float) -> None:
        if self._process is None:
            if self._back_off.ready(now):
                self._start(now)
            return
        self._listen(now)
        if (code := self._process.poll()) is not None:
            self._failed(
                now, f"Ray's {self._what} ended with exit code {code}: {last_line(log_path(self._settings, LOG))}"
            )
        elif now - self._heard > SILENCE_S:
            self._failed(now, f"the controller was silent for {SILENCE_S:.0f} s")

    def stop(self) -> None:
        """End the head and all below it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_S)
        self._process = self.head = None
        end(self._service.below(), STRAY_S)
        for left in self._temp_dir.iterdir():
            shutil.rmtree(left, ignore_errors=True)

    def _start(self, now: float) -> None:
        ray_dir = self._temp_dir / secrets.token_hex(2)  # Ray opens its own folder to everybody, ours around it is shut
        heartbeat.forget(self._settings)
        with open_log(self._settings, LOG) as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, self._run_id, str(ray_dir)],
                env=_environment(self._settings),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._temp_dir,  # also how we find all that it started
            )
        self.head = identify(self._process.pid)
        self._started = self._heard = now
        self._beat = None
        log.info("started Ray's head, pid %d", self._process.pid)

    def _listen(self, now: float) -> None:
        beat = heartbeat.read_beat(self._settings, self._run_id)
        if beat is not None and (beat.pid, beat.count) != self._beat:
            self._beat, self._heard = (beat.pid, beat.count), now

    def _failed(self, now: float, error: str) -> None:
        log.error("%s", error)
        self.stop()
        self.error = error
        self._back_off.failed(now, lived_s=now - self._started)


def _environment(settings: Settings) -> dict[str, str]:
    """Of our own Ray without what the user set for other Rays; its token lives only in the environments of this farm's
    processes, unless other hosts join. What a Ray that runs already asks for (RAY_AUTH_MODE, RAY_AUTH_TOKEN…) the user
    has set."""
    if settings.ray_address:
        return os.environ | environment(settings)
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    shared = settings.joined or settings.ray_listen
    token = kept_token(settings) if shared else secrets.token_hex(TOKEN_BYTES)
    return theirs | environment(settings) | ray_environment(settings) | {"RAY_AUTH_TOKEN": token}
