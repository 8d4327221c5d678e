"""MLflow's server with our page in it: `mlflow server --app-name lever`, or `lever dashboard`."""

from __future__ import annotations

from functools import cache

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.routing import APIRoute

from dashboards import page, store

# Only our own scripts run, whatever a name smuggles in; Plotly sets styles and makes pictures of its own.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'self'"


def create_app() -> FastAPI:
    """The factory that the entry point group `mlflow.app` names."""
    from mlflow.server.fastapi_app import app  # importing it builds MLflow's app, its host check included

    served: FastAPI = app
    if not any(getattr(route, "path", "") == "/lever" for route in served.router.routes):
        # MLflow's app ends in a catch-all mount: what comes after it is never reached.
        served.router.routes[:0] = [
            APIRoute("/lever", lever_page, methods=["GET"]),
            APIRoute("/lever/static/plotly.min.js", plotly_js, methods=["GET"]),
            APIRoute("/lever/static/{name}", static_file, methods=["GET"]),
        ]
    return served


def lever_page(sweep: str | None = None) -> HTMLResponse:
    """The page of one sweep; without a name, of the newest. Blocking, so it runs in the thread pool."""
    names = store.sweep_names()
    wanted = sweep or next(iter(names), None)
    found = store.load(wanted) if wanted else None
    status = 404 if wanted and found is None else 200
    return HTMLResponse(page.render(names, found, wanted), status, {"Content-Security-Policy": POLICY})


def plotly_js() -> Response:
    """Plotly's script out of its Python package: 4 MB, kept by the browser for a day."""
    return Response(_plotly_js(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})


def static_file(name: str) -> Response:
    file = page.HERE / "static" / name
    known = {f.name for f in (page.HERE / "static").iterdir()}
    return FileResponse(file) if name in known else Response(status_code=404)


@cache
def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    return script
