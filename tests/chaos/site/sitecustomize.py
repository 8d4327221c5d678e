"""Failpoints, put into every process of a farm under test by being on its PYTHONPATH: before and after each durable
write, a process looks whether it was chosen to die here, and then kills itself as kill -9 would.

The file LEVER_CHAOS/armed holds "ROLE POINT WHEN"; whoever meets it takes it, so that one arming kills one process.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

CHAOS = os.environ.get("LEVER_CHAOS", "")


def role() -> str:
    """cli | farm (a Ray worker: the controller or a host's worker) | other."""
    program = sys.argv[0] if sys.argv else ""
    return "cli" if program.endswith("orchestrator/__main__.py") else "farm" if "default_worker" in program else "other"


def hit(point: str, when: str) -> None:
    armed = f"{CHAOS}/armed"
    try:
        with open(armed) as file:
            wanted = file.read().split()
        if wanted == [role(), point, when]:
            os.rename(armed, f"{CHAOS}/fired")  # only one of several gets it
            os.kill(os.getpid(), signal.SIGKILL)
    except OSError:
        return  # nothing is armed, or another one took it


def around(function: Callable[..., Any], point: str) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        hit(point, "before")
        result = function(*args, **kwargs)
        hit(point, "after")
        return result

    return wrapped


def registry_writes(module: Any) -> None:
    """`before`: all is said and nothing committed; `after`: it is durable, and nobody was told."""
    plain = module.Database.write

    @contextlib.contextmanager
    def write(self: Any) -> Iterator[Any]:
        method = sys._getframe(2).f_code.co_name  # of SqlRegistry
        with plain(self) as session:
            yield session
            session.flush()
            hit(method, "before")
        hit(method, "after")

    module.Database.write = write


def mlflow_writes(module: Any) -> None:
    plain = module.MlflowSink._connected

    def connected(self: Any, make: Any) -> Any:
        client = plain(self, make)
        for name in ("create_run", "log_batch", "log_artifacts", "set_terminated"):
            setattr(client, name, around(getattr(client, name), name))
        return client

    module.MlflowSink._connected = connected


def functions(*names: str) -> Callable[[Any], None]:
    def patch(module: Any) -> None:
        for name in names:
            setattr(module, name, around(getattr(module, name), name))

    return patch


PATCHES: dict[str, Callable[[Any], None]] = {
    "orchestrator.registry.database": registry_writes,
    "orchestrator.tracking.mlflow_writer": mlflow_writes,
    "orchestrator.farm.preparation": functions("prepare_and_start"),
    "orchestrator.farm.collection": functions("collect"),
    "orchestrator.run_files": functions("write_json"),
}


class Patching(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in PATCHES:
            return None
        patch = PATCHES.pop(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def run_and_patch(module: Any) -> None:
            run(module)
            patch(module)

        spec.loader.exec_module = run_and_patch  # type: ignore[method-assign]
        return spec


if CHAOS:
    sys.meta_path.insert(0, Patching())
