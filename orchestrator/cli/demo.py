"""`lever demo`: the commands that a user would type, one after the other, on two virtual phones."""

from __future__ import annotations

import os
import shlex
import sys
import time
from contextlib import closing
from pathlib import Path

import click

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.cli import main
from orchestrator.entities import DeviceState
from orchestrator.errors import LeverError
from orchestrator.service.up import running
from orchestrator.settings import Settings

PHONES = ("oneplus12", "pixel8")
FLASH_MB_S = 500
TRACKER_S, POLL_S = 120.0, 0.2


@click.command()
@click.option("--pair", default="qwen-coder", show_default=True, help="smollm2 is small: for slow links.")
def demo(pair: str) -> None:
    """Add a model pair, register two virtual phones, run a sweep on both; it ends with its table.

    What is done already is not done again: a second run only prints.
    """
    settings, sweep, began = farm_settings.load(), f"demo-{pair}", time.monotonic()
    was_up = running(settings) is not None
    try:
        _run(settings, pair, sweep)
    finally:
        if not was_up:
            _lever("down")
    _farewell(settings, sweep, time.monotonic() - began)


def _run(settings: Settings, pair: str, sweep: str) -> None:
    _lever("models", "add", pair)
    for phone in PHONES:
        if _registered(settings, phone):
            click.echo(f"\nvirtual phone {phone} is registered already")
        else:
            _lever("phones", "register", f"virtual:{phone}", "--name", phone)
    _lever(
        "sweep",
        "-m",
        f"pair={pair}",
        "engine=autoregressive,chain",
        "workload=demo",
        f"engine.storage.flash_bandwidth_mb_s={FLASH_MB_S}",
        f"phones={','.join(PHONES)}",
        f"sweep={sweep}",
    )
    _await_tracker(settings)


def _lever(*args: str) -> None:
    """Print the command and run it here; raises LeverError when it failed (it has said why)."""
    command = f"lever {shlex.join(args)}"
    click.secho(f"\n$ {command}", bold=True)
    if code := main.run(args):
        error = LeverError(
            f"the demo ended at `{command}`", "Once that is mended, run the demo again: it goes on where it stopped."
        )
        error.exit_code = code
        raise error


def _registered(settings: Settings, phone: str) -> bool:
    with closing(wiring.open_registry(settings)) as registry:
        return any(d.name == phone and d.state is not DeviceState.RETIRED for d in registry.devices())


def _await_tracker(settings: Settings) -> None:
    """MLflow gets its runs a little after the registry; ending the farm earlier would leave them for the next one."""
    deadline = time.monotonic() + TRACKER_S
    with closing(wiring.open_registry(settings)) as registry:
        while registry.outbox(1) and running(settings) and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _farewell(settings: Settings, sweep: str, took_s: float) -> None:
    home = f"LEVER_HOME={shlex.quote(str(settings.home))} " if "LEVER_HOME" in os.environ else ""
    lever = home + shlex.quote(_shown(Path(sys.executable).with_name("lever")))
    click.echo(
        f"\nDone in {took_s:.0f} s. Both phones are virtual: their energy is modelled, their flash capped.\n"
        f"The table again:                      {lever} results {sweep}\n"
        f"MLflow's UI and the farm's own page:  {lever} dashboard\n"
        f"MLflow's store:                       {settings.tracking_uri}"
    )


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
