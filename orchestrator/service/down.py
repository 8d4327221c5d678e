"""Ends what `up` started and nothing else: the supervisor by pid and start time, the rest by session and folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.farm import virtual_phones
from orchestrator.farm.connecting import key_path
from orchestrator.processes import end
from orchestrator.run_files import locked
from orchestrator.service import state
from orchestrator.settings import Settings

SUPERVISOR_S = 80.0  # at worst: Ray's head 35 s, then a phone that it is just starting 30 s
STRAY_S = 5.0


def down(settings: Settings, report: Callable[[str], None]) -> bool:
    """End the service and the virtual phones; running attempts on real phones go on. False: nothing was running."""
    with one_at_a_time(settings, report):
        ended = end_service(settings, report)
        ended = end_phones(settings, report) or ended
        return end_adb_server(settings, report) or ended


@contextlib.contextmanager
def one_at_a_time(settings: Settings, report: Callable[[str], None]) -> Iterator[None]:
    """`up` and `down` change the service; a second one waits for the first."""
    lock = settings.run / "service.lock"
    with locked(lock, wait=False) as ours:
        if ours:
            yield
            return
    report("waiting for another `lever up` or `lever down`")
    with locked(lock):
        yield


def end_service(settings: Settings, report: Callable[[str], None]) -> bool:
    """End supervisor and Ray, also what a dead supervisor left; for who is at it alone."""
    service = state.read(settings)
    if service is None:
        return False
    if supervisor := service.process():
        report("stopping this host's Ray node" if service.joined else "stopping the controller and Ray")
        end([supervisor], SUPERVISOR_S)
    strays = end(service.below(), STRAY_S)
    if strays:
        report(f"ended {strays} processes that a dead supervisor had left")
    if Path(service.temp_dir).name.startswith(state.TEMP_PREFIX):
        shutil.rmtree(service.temp_dir, ignore_errors=True)
    state.forget(settings)
    return supervisor is not None or strays > 0


def end_phones(settings: Settings, report: Callable[[str], None]) -> bool:
    running = [name for name in virtual_phones.names(settings) if virtual_phones.address_of(settings, name)]
    for name in running:
        report(f"stopping virtual phone {name}")
        virtual_phones.stop(settings, name)
    return bool(running)


def end_adb_server(settings: Settings, report: Callable[[str], None]) -> bool:
    """The farm's own; never the user's."""
    key = key_path(settings)
    if not (key.parent / "server").exists():
        return False
    from orchestrator.farm.adb.server_process import stop_private_server

    ended = stop_private_server(key)
    if ended:
        report("stopped the farm's adb server")
    return ended
