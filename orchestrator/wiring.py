"""From settings to backends: the composition root, for the CLI and inside Ray's actors. Heavy libraries load late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from orchestrator.settings import Settings

if TYPE_CHECKING:
    from orchestrator.controller import Controller
    from orchestrator.entities import Device
    from orchestrator.executor.contract import Executor
    from orchestrator.executor.host_attempts import RunAttempt, StopAttempt
    from orchestrator.farm.adb.contract import Transport
    from orchestrator.models.store import ModelStore
    from orchestrator.registry.contract import Registry
    from orchestrator.tracking.contract import Tracker


def open_registry(settings: Settings) -> Registry:
    """Made or upgraded if need be; close it. Raises RegistryError, ConfigError."""
    from orchestrator.registry import sql

    return sql.open_registry(settings.registry_url)


def registry_to_read(settings: Settings) -> Registry:
    """As `open_registry`, but a farm that has none is not given one for being looked at: an empty one in memory."""
    from orchestrator.registry import sql
    from orchestrator.registry.memory import MemoryRegistry

    return MemoryRegistry() if sql.is_missing(settings.registry_url) else sql.open_registry(settings.registry_url)


def is_reachable(settings: Settings) -> bool:
    """Whether the registry can be opened from here without making one: not a file of another machine."""
    from orchestrator.registry import sql

    return not sql.is_missing(settings.registry_url)


def model_store(settings: Settings) -> ModelStore:
    from orchestrator.models.store import ModelStore

    return ModelStore(settings.models)


def transport(device: Device, settings: Settings) -> Transport:
    """A new connection to the phone; close it. Virtual phones of this host are started first. Raises PhoneError."""
    from orchestrator.farm.connecting import connector

    return connector(settings)(device)


def attempt_runner(settings: Settings) -> RunAttempt:
    """Runs or re-attaches to one attempt on a phone of this host; blocking."""
    from orchestrator.farm.agent_client import run_attempt
    from orchestrator.farm.connecting import connector

    connect, store = connector(settings), model_store(settings)
    return lambda order, report, cancelled: run_attempt(order, connect, store, settings, report, cancelled)


def attempt_stopper(settings: Settings) -> StopAttempt:
    """Ends an attempt on its phone; blocking."""
    from orchestrator.farm.agent_client import stop_attempt
    from orchestrator.farm.connecting import connector

    connect = connector(settings)
    return lambda order: stop_attempt(order, connect)


def inline_executor(settings: Settings) -> Executor:
    """Runs attempts in threads of this process."""
    from orchestrator.executor.inline import InlineExecutor

    return InlineExecutor(attempt_runner(settings))


def tracker(settings: Settings) -> Tracker:
    """MLflow's writer; close it."""
    from orchestrator.tracking.mlflow_writer import open_tracker

    return open_tracker(settings)


def health_monitor(settings: Settings, stop: threading.Event, start_phones: bool) -> threading.Thread:
    """Watches this host's phones until `stop` is set; not started yet. `start_phones`: virtual phones that do not run
    are started, for a farm without a supervisor."""
    from orchestrator.farm.connecting import connector
    from orchestrator.farm.health import ANSWER_S
    from orchestrator.farm.health_monitor import HealthMonitor

    return HealthMonitor(
        lambda: open_registry(settings), connector(settings, start_phones, ANSWER_S), settings.host, stop
    )


@contextmanager
def open_controller(settings: Settings, executor: Executor) -> Iterator[Controller]:
    """A controller with its own registry and tracker, closed at the end. Raises RegistryError, ConfigError."""
    from orchestrator.controller import Controller
    from orchestrator.controller.disk import shortage
    from orchestrator.controller.owner import new_owner

    def pause() -> str:
        return shortage(settings.home)

    with closing(open_registry(settings)) as registry, closing(tracker(settings)) as writer:
        yield Controller(registry, executor, writer, new_owner(settings.host), settings.host, pause=pause)
