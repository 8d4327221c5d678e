"""The farm's one supervisor: no Ray in it, so that whatever happens to Ray it is there to start it again."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

from orchestrator import wiring
from orchestrator.errors import FarmError
from orchestrator.processes import identify
from orchestrator.ray_runtime.logs import log_to
from orchestrator.run_files import locked
from orchestrator.service import state
from orchestrator.service.head_keeper import HeadKeeper
from orchestrator.service.phone_keeper import PhoneKeeper
from orchestrator.settings import Settings

TICK_S = 0.5
log = logging.getLogger("supervisor")


def supervise(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Raises FarmError when another supervisor keeps this farm."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    with locked(settings.run / "supervisor.lock", wait=False) as ours:
        if not ours:
            raise FarmError(f"the farm at {settings.home} has a supervisor already", "See: lever status")
        log_to(settings, "supervisor")
        service = state.Service(
            uuid.uuid4().hex,
            identify(os.getpid()),
            os.getsid(0),
            settings.registry_url,
            _temp_dir(),
            settings.joined or settings.ray_address,
            settings.ray_listen,
            bool(settings.joined),
        )
        state.write(settings, service)  # before anything is started: `down` has to find it
        log.info("supervisor of %s, run %s", settings.home, service.run_id)
        _keep(settings, service, stop)
        shutil.rmtree(service.temp_dir, ignore_errors=True)
        log.info("ended")


def _keep(settings: Settings, service: state.Service, stop: threading.Event) -> None:
    head = HeadKeeper(settings, service)
    phones = PhoneKeeper(settings, stop)
    if not service.joined:  # else the farm's worker here sees to the phones
        phones.start()
        wiring.health_monitor(settings, stop, start_phones=False).start()
    while not stop.wait(TICK_S):
        head.tick(time.monotonic())
        now = _now(service, head, phones)
        if now != service:
            state.write(settings, service := now)
    head.stop()
    if not service.joined:
        phones.join()


def _now(service: state.Service, head: HeadKeeper, phones: PhoneKeeper) -> state.Service:
    return replace(
        service, head=head.head, head_failures=head.failures, error=head.error, phone_errors=dict(phones.errors)
    )


def _temp_dir() -> str:
    """A short path of our own: the paths of Ray's sockets may have 107 bytes, and some users' TMPDIR has 60 alone."""
    return tempfile.mkdtemp(prefix=state.TEMP_PREFIX, dir="/tmp" if Path("/tmp").is_dir() else None)  # noqa: S108  # private by mkdtemp
