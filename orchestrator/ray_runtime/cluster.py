"""The Ray that the farm works in: a head of our own on loopback, or one that runs already."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from orchestrator.errors import FarmError
from orchestrator.ray_runtime.names import LABEL
from orchestrator.settings import Settings

OBJECT_STORE_BYTES = 80 << 20  # Ray's minimum is 75 MiB; only orders and outcomes pass through
ROTATE_BYTES = 5_000_000
VITAL = ("gcs_server", "raylet")
QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}


def environment(settings: Settings) -> dict[str, str]:
    """What Ray reads from the environment, before it is imported: of our own, small logs and, unless other hosts may
    join, loopback only."""
    if settings.ray_address:
        return {"RAY_USAGE_STATS_ENABLED": "0"}
    return _reach(settings) | {
        "RAY_AUTH_MODE": "token",  # RAY_AUTH_TOKEN: nobody else on this machine may run code in our farm
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ROTATION_MAX_BYTES": str(ROTATE_BYTES),
        "RAY_ROTATION_BACKUP_COUNT": "1",
        "RAY_worker_niceness": "0",  # of 15 by default: virtual phones at work would leave the controller no time
        "RAY_memory_monitor_refresh_ms": "0",  # it would kill the controller for the memory that phones' agents use
    }


def _reach(settings: Settings) -> dict[str, str]:
    if settings.joined:
        return {}
    if settings.ray_listen:
        return {"RAY_GCS_SERVER_PORT": settings.ray_listen.rpartition(":")[2]}
    return {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray binds every interface without it


@contextmanager
def in_ray(settings: Settings, temp_dir: str) -> Iterator[str]:
    """Connected; yields the head's address. A head of our own ends afterwards, one that ran goes on without what we
    started in it. Raises FarmError."""
    import ray

    try:
        if settings.ray_address:
            _join(settings.ray_address, namespace(settings))
        else:
            _start(settings, temp_dir)
        yield str(ray.get_runtime_context().gcs_address)
    finally:
        ray.shutdown()


def namespace(settings: Settings) -> str:
    """Of our actors' names: several farms may share a Ray."""
    return f"lever-{hashlib.sha256(f'{settings.registry_url} {settings.home}'.encode()).hexdigest()[:8]}"


def check(settings: Settings) -> None:
    """Raises FarmError when Ray is gone."""
    import ray

    if settings.ray_address:
        try:
            ray.nodes()  # type: ignore[no-untyped-call]
        except Exception as error:
            raise FarmError(f"Ray at {settings.ray_address} does not answer any more: {_first_line(error)}") from error
        return
    alive = {p.name() for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE}
    if missing := [name for name in VITAL if name not in alive]:
        raise FarmError(f"Ray's {missing[0]} died")


def _start(settings: Settings, temp_dir: str) -> None:
    """A head with ports of its own."""
    import ray

    listen: dict[str, Any] = {"_node_ip_address": settings.ray_listen.rpartition(":")[0]} if settings.ray_listen else {}
    ray.init(
        address="local",  # else it joins whatever cluster it finds
        num_cpus=os.cpu_count(),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        namespace=namespace(settings),
        labels={LABEL: settings.host},
        _temp_dir=temp_dir,
        **listen,
        **QUIET,
    )


def _join(address: str, namespace: str) -> None:
    import ray

    try:
        ray.init(address=address, namespace=namespace, **QUIET)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise FarmError(f"cannot join Ray at {address} from this machine: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
