"""Brings the farm's service up, however it was left, and waits until its controller answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from orchestrator.errors import FarmError
from orchestrator.ray_runtime import heartbeat
from orchestrator.ray_token import make_token
from orchestrator.service import state
from orchestrator.service.down import end_service, one_at_a_time
from orchestrator.service.log_files import last_line, log_path, open_log
from orchestrator.settings import Settings, environment

START_S, KNOCK_S = 180.0, 10.0
MOST_FAILURES = 3  # of Ray's head in a row: it will not come up by itself
POLL_S = 0.1

Report = Callable[[str], None]


def ensure_up(settings: Settings, report: Report) -> bool:
    """Start what does not run. Returns False when all was up already. Raises FarmError, and then nothing is left."""
    if _running_here(settings):
        return False
    with one_at_a_time(settings, report):
        if _running_here(settings):
            return False
        service = state.read(settings)
        if service is None or service.process() is None:
            end_service(settings, report)
            if settings.ray_listen:
                make_token(settings)
            elif settings.ray_address:
                knock(settings.ray_address, "Start one there: ray start --head --port …")
            _start(settings, report)
        try:
            _await(settings, report)
        except BaseException:
            end_service(settings, report)
            raise
    return True


def running(settings: Settings) -> state.Service | None:
    """The service, if its supervisor lives and its controller answers."""
    service = state.read(settings)
    return service if service and service.process() and state.answers(settings, service) else None


def _running_here(settings: Settings) -> bool:
    """Raises FarmError when the service works on another registry, or in another Ray, than we would."""
    service = running(settings)
    if service and service.registry_url != settings.registry_url:
        raise FarmError(
            "the farm's service runs on another registry than LEVER_REGISTRY_URL names",
            "Run `lever down` and `lever up`, or set LEVER_REGISTRY_URL as it was.",
        )
    if service and settings.ray_listen not in ("", service.ray_listen):
        raise FarmError(
            f"the farm's service takes other hosts {_at(service.ray_listen)}, not at {settings.ray_listen}",
            "End it first: lever down",
        )
    if service and settings.ray_address not in ("", service.ray_address):
        raise FarmError(
            f"the farm's service runs in {service.ray_address or 'a Ray of its own'}, not at {settings.ray_address}",
            "End it first: lever down",
        )
    return service is not None


def _at(listen: str) -> str:
    return f"at {listen}" if listen else "nowhere"


def knock(address: str, remedy: str) -> None:
    """Raises FarmError when nobody listens there: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), KNOCK_S).close()
    except (OSError, ValueError) as error:
        raise FarmError(f"no Ray head answers at {address}: {error}", remedy) from error


def _start(settings: Settings, report: Report) -> None:
    report("starting the service")
    with open_log(settings, "service") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator.service"],
            env=os.environ | environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=settings.home,
        )
    deadline = time.monotonic() + START_S
    while (service := state.read(settings)) is None or service.supervisor.pid != process.pid:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise _failed(settings, f"the supervisor did not start: {last_line(log_path(settings, 'service'))}")
        time.sleep(POLL_S)
    process.returncode = 0  # detached on purpose: we never wait for it


def _await(settings: Settings, report: Report) -> None:
    told, deadline = "", time.monotonic() + START_S
    while not running(settings):
        service = state.read(settings)
        if service is None or service.process() is None:
            raise _failed(settings, f"the supervisor died: {last_line(log_path(settings, 'service'))}")
        if service.head_failures >= MOST_FAILURES or time.monotonic() > deadline:
            what = f"cannot join Ray at {service.ray_address}" if service.ray_address else "Ray's head does not come up"
            raise _failed(settings, f"{what}: {service.error or 'it takes too long'}")
        if (step := _step(settings, service)) != told:
            report(told := step)
        time.sleep(POLL_S)


def _step(settings: Settings, service: state.Service) -> str:
    head = heartbeat.read_head(settings, service.run_id)
    if service.error and head is None:
        return f"starting Ray again: {service.error}"
    if head is None or not head.ray_address:
        return f"joining Ray at {service.ray_address}" if service.ray_address else "starting Ray (6 to 12 s)"
    if head.error:
        return f"starting the controller again: {head.error}"
    return "starting the controller"


def _failed(settings: Settings, what: str) -> FarmError:
    return FarmError(what, f"Its logs are in {settings.logs}; then run: lever up")
