"""Ray's head and the controller's keeper: `python -m orchestrator.ray_runtime.head RUN TEMP_DIR`, by the supervisor.

Ray's processes share this one's fate (on Linux the kernel sees to it) but for two agents, which the supervisor ends.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from orchestrator.errors import FarmError
from orchestrator.ray_runtime.heartbeat import Head, write_head
from orchestrator.ray_runtime.logs import log_to
from orchestrator.settings import Settings, load

OBJECT_STORE_BYTES = 80 << 20  # Ray's minimum is 75 MiB; only orders and outcomes pass through
ROTATE_BYTES = 5_000_000
POLL_S, STOP_S = 0.5, 25.0  # the controller delivers what it owes to the tracker, for up to 20 s
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0
VITAL = ("gcs_server", "raylet")
log = logging.getLogger("head")


def environment() -> dict[str, str]:
    """What Ray reads from the environment, before it is imported: loopback only, no telemetry, small logs."""
    return {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray binds every interface without it
        "RAY_AUTH_MODE": "token",  # RAY_AUTH_TOKEN: nobody else on this machine may run code in our farm
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ROTATION_MAX_BYTES": str(ROTATE_BYTES),
        "RAY_ROTATION_BACKUP_COUNT": "1",
        "RAY_worker_niceness": "0",  # of 15 by default: virtual phones at work would leave the controller no time
        "RAY_memory_monitor_refresh_ms": "0",  # it would kill the controller for the memory that phones' agents use
    }


def main(run_id: str, temp_dir: str) -> None:
    os.environ.update(environment())
    settings = load()
    log_to(settings, "head")
    head = Head(run_id, os.getpid())
    write_head(settings, head)
    with _ray(settings, temp_dir) as address:
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())  # after Ray, which sets its own
        _keep_controller(settings, replace(head, ray_address=address), stop)


@contextmanager
def _ray(settings: Settings, temp_dir: str) -> Iterator[str]:
    """A head on loopback with ports of its own; yields its address."""
    import ray

    from orchestrator.ray_runtime.hosts import LABEL

    ray.init(
        address="local",  # else it joins whatever cluster it finds
        num_cpus=os.cpu_count(),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        namespace="lever",
        labels={LABEL: settings.host},
        log_to_driver=False,
        configure_logging=False,
        _temp_dir=temp_dir,
    )
    try:
        yield str(ray.get_runtime_context().gcs_address)
    finally:
        ray.shutdown()


def _keep_controller(settings: Settings, head: Head, stop: threading.Event) -> None:
    """Run the controller's loop again whenever it ends; returns when told to stop. FarmError: Ray is gone."""
    import ray

    from orchestrator.ray_runtime.controller_actor import start_controller

    actor = start_controller(settings, head.run_id)
    wait_s = FIRST_WAIT_S
    while True:
        write_head(settings, head)
        started, run = time.monotonic(), actor.run.remote()
        while not ray.wait([run], timeout=POLL_S)[0]:
            _check_ray()
            if stop.is_set():
                actor.stop.remote()
                ray.wait([run], timeout=STOP_S)
                return
        head = replace(head, controller_restarts=head.controller_restarts + 1, error=_why(run))
        log.error("the controller ended, starting it again: %s", head.error)
        wait_s = FIRST_WAIT_S if time.monotonic() - started > LONGEST_WAIT_S else min(LONGEST_WAIT_S, wait_s * 2)
        if stop.wait(wait_s):
            return


def _check_ray() -> None:
    alive = {p.name() for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE}
    if missing := [name for name in VITAL if name not in alive]:
        raise FarmError(f"Ray's {missing[0]} died")


def _why(run: Any) -> str:
    import ray
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

    try:
        ray.get(run)
    except (ActorDiedError, ActorUnavailableError) as error:
        log.info("%s", error)
        return "its process died"
    except RayError as error:  # its loop raised
        log.info("%s", error)
        return str(error).strip().splitlines()[-1]
    return "it returned"


if __name__ == "__main__":
    main(*sys.argv[1:])
