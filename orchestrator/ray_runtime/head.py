"""Keeper of Ray's head, the controller and the hosts' workers: `python -m orchestrator.ray_runtime.head RUN TEMP_DIR`,
by the supervisor.

Ray's processes share this one's fate (on Linux the kernel sees to it) but for two agents, which the supervisor ends. In
a Ray that ran before (`lever up --address`) only our actors do.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.errors import LeverError
from orchestrator.farm_card import FarmCard
from orchestrator.ray_runtime.card_board import hang_up
from orchestrator.ray_runtime.cluster import check, environment, in_ray
from orchestrator.ray_runtime.heartbeat import Head, read_beat, write_head
from orchestrator.ray_runtime.logs import log_to
from orchestrator.settings import Settings, load

if TYPE_CHECKING:
    from orchestrator.ray_runtime.workers import Workers

POLL_S, STOP_S = 0.5, 25.0  # the controller delivers what it owes to the tracker, for up to 20 s
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0
log = logging.getLogger("head")


def main(run_id: str, temp_dir: str) -> None:
    settings = load()
    os.environ.update(environment(settings))
    log_to(settings, "head")
    head = Head(run_id, os.getpid())
    write_head(settings, head)
    with in_ray(settings, temp_dir) as address:
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())  # after Ray, which sets its own
        hang_up(FarmCard.of(settings), address)
        _keep_controller(settings, replace(head, ray_address=address), stop)


def _keep_controller(settings: Settings, head: Head, stop: threading.Event) -> None:
    """Run the controller's loop again whenever it ends; returns when told to stop. FarmError: Ray is gone."""
    import ray

    from orchestrator.ray_runtime.controller_actor import start_controller
    from orchestrator.ray_runtime.workers import Workers

    workers = Workers(settings)
    actor = start_controller(settings, head.run_id, workers.here)
    wait_s = FIRST_WAIT_S
    while True:
        write_head(settings, head)
        started, run = time.monotonic(), actor.run.remote()
        while not ray.wait([run], timeout=POLL_S)[0]:
            check(settings)
            head = _tend(workers, settings, head)
            if stop.is_set():
                actor.stop.remote()
                ray.wait([run], timeout=STOP_S)
                return
        head = replace(head, controller_restarts=head.controller_restarts + 1, error=_why(run))
        log.error("the controller ended, starting it again: %s", head.error)
        wait_s = FIRST_WAIT_S if time.monotonic() - started > LONGEST_WAIT_S else min(LONGEST_WAIT_S, wait_s * 2)
        if stop.wait(wait_s):
            return


def _tend(workers: Workers, settings: Settings, head: Head) -> Head:
    if read_beat(settings, head.run_id) is None:
        return head  # the controller comes first: whoever waits for the farm waits for it
    if (hosts := workers.tend()) != head.hosts:
        head = replace(head, hosts=hosts)
        write_head(settings, head)
    return head


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
    try:
        main(*sys.argv[1:])
    except LeverError as error:
        log.exception("%s", error.message)
        sys.exit(error.message)
