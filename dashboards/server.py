"""MLflow's app and our page in one process: ready sooner and smaller than `mlflow server`, the same host check."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from orchestrator.errors import TrackingError

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
GRACE_S = 3  # open requests may take this long when the server stops


def serve(tracking_uri: str, artifacts: Path, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve on the bound socket `listener` until interrupted; `ready` is called once the server answers. Raises
    TrackingError when MLflow cannot open its database, KeyboardInterrupt on Ctrl-C."""
    app = _app(tracking_uri, artifacts)
    asyncio.run(_serve(app, listener, ready))


def _app(tracking_uri: str, artifacts: Path) -> object:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what MLflow imports is not the user's concern
        from mlflow.exceptions import MlflowException
        from mlflow.server import handlers
        from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

        app = _create_app()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    os.environ[BACKEND_STORE_URI_ENV_VAR] = tracking_uri  # as `mlflow server` tells its workers
    os.environ[ARTIFACT_ROOT_ENV_VAR] = artifacts.as_uri()
    try:
        handlers.initialize_backend_stores(tracking_uri, tracking_uri, artifacts.as_uri())
    except MlflowException as error:
        raise TrackingError(
            f"MLflow cannot open {tracking_uri}: {error.message}", "See LEVER_TRACKING_URI and LEVER_HOME."
        ) from error
    return app


def _create_app() -> object:
    from dashboards.app import create_app

    return create_app()


async def _serve(app: object, listener: socket.socket, ready: Callable[[], None]) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # FastAPI, whose type this file need not know
        log_level="warning",
        lifespan="off",  # MLflow's start-up sweeps the machine's containers: none of them is ours
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    host, port = listener.getsockname()[:2]
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    if not serving.done():
        await asyncio.to_thread(_ask, f"http://{host}:{port}/health")
        ready()
    await serving


def _ask(url: str) -> None:
    with urlopen(url, timeout=60) as answer:  # noqa: S310  # our own address
        answer.read()
