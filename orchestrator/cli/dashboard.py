"""`lever dashboard`: MLflow's UI and our page, in the foreground, on loopback."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from urllib.parse import urlsplit

import click

from orchestrator import settings
from orchestrator.errors import FarmError, UsageError

HOST, USUAL_PORT = "127.0.0.1", 5000


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help=f"Default: {USUAL_PORT}, or a free one when it is taken.")
@click.option("--no-browser", is_flag=True, help="Print the addresses, open nothing.")
def dashboard(port: int | None, no_browser: bool) -> None:
    """Open MLflow's UI and the farm's own page; Ctrl-C stops the server."""
    where = settings.load()
    if urlsplit(where.tracking_uri).scheme in ("http", "https"):
        raise UsageError(
            f"results are logged to the MLflow server {where.tracking_uri}",
            "Open it in a browser. Its host shows the farm's page with `mlflow server --app-name lever`.",
        )
    with listen(port) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        click.echo("Starting MLflow (about 10 s) …", err=True)
        try:
            _serve(where, listener, url, browser=not no_browser)
        except KeyboardInterrupt:
            click.echo("Dashboard stopped.", err=True)


def listen(port: int | None) -> socket.socket:
    """A bound socket on `port`, or, when none is asked for, on the usual one or any free one. Raises FarmError."""
    wanted = (port,) if port else (USUAL_PORT, 0)
    for candidate in wanted:
        try:
            return socket.create_server((HOST, candidate), reuse_port=False)
        except OSError as error:
            problem = error
    reason = "is in use" if problem.errno == errno.EADDRINUSE else f"cannot be used: {problem.strerror}"
    raise FarmError(f"port {port} on {HOST} {reason}", "Give another with --port, or none: a free one is found.")


def _serve(where: settings.Settings, listener: socket.socket, url: str, *, browser: bool) -> None:
    from dashboards.server import serve

    where.home.mkdir(parents=True, exist_ok=True)

    def ready() -> None:
        click.echo(f"Dashboard  {url}/lever\nMLflow     {url}/\nCtrl-C stops it.")
        if browser and _has_screen():
            webbrowser.open(f"{url}/lever")

    serve(where.tracking_uri, where.home / "artifacts", listener, ready)


def _has_screen() -> bool:
    """Without one `webbrowser` would start a text browser in this very terminal."""
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
