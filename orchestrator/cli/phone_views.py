"""How phones look in a terminal: steps of a registration, the table of all, the details of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from orchestrator.entities import Attempt, Device, DeviceState, Progress
from orchestrator.farm import virtual_phones
from orchestrator.farm.registration import Step
from orchestrator.settings import Settings

COLOURS = {
    DeviceState.READY: "green",
    DeviceState.BUSY: "cyan",
    DeviceState.OFFLINE: "yellow",
    DeviceState.UNAUTHORIZED: "yellow",
    DeviceState.QUARANTINED: "red",
    DeviceState.RETIRED: "dim",
}


@contextmanager
def calibrating(name: str) -> Iterator[Callable[[Progress], None]]:
    """One live line on stderr."""
    with Console(stderr=True).status(f"looking at {escape(name)}") as status:

        def report(progress: Progress) -> None:
            if progress.kind == "provisioning":
                megabytes = f"{progress.data['done_bytes'] / 1e6:.0f}/{progress.data['total_bytes'] / 1e6:.0f} MB"
                status.update(f"{escape(name)}: pushing {megabytes}")
            elif progress.kind == "agent_event" and progress.data.get("kind") == "loaded":
                status.update(f"{escape(name)}: measuring")

        yield report


class StepPrinter:
    """A line for every step that is done, a spinner for the one that goes on."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._status = Status("", console=self._console)

    def __enter__(self) -> StepPrinter:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, step: Step) -> None:
        if step.detail is None:
            self._status.update(f"{step.name}…")
        else:
            self._console.print(f"[green]✓[/] {step.name:<9} {escape(step.detail)}", soft_wrap=True)


def label(device: Device) -> str:
    return f"virtual, {device.facts.get('profile', 'unknown profile')}" if device.simulated else device.kind


def as_data(device: Device, settings: Settings, running: Attempt | None) -> dict[str, Any]:
    """JSON-ready; `address` is where a virtual phone of this host listens now, None when it does not run."""
    data = asdict(device) | {"simulated": device.simulated, "attempt": running.attempt_id if running else None}
    if device.simulated and device.name in virtual_phones.names(settings):
        data["address"] = virtual_phones.address_of(settings, device.name)
    return data


def print_table(devices: Sequence[Device], settings: Settings, running: Mapping[str, Attempt]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("phone", "kind", "state", "model", "SoC", "cores", "RAM", "host", "address"):
        table.add_column(heading, no_wrap=heading in ("phone", "address"))
    for device in devices:
        data = as_data(device, settings, running.get(device.name))
        facts = device.facts
        table.add_row(
            escape(device.name),
            device.kind,
            _state(device, data),
            escape(str(facts.get("model", ""))),
            escape(str(facts.get("soc", ""))),
            str(facts.get("cores", "")),
            f"{facts.get('ram_mb', 0) / 1024:.0f} GB",
            escape(device.host),
            escape(_address(device, data)),
        )
    Console(highlight=False).print(table)


def print_details(data: Mapping[str, Any]) -> None:
    """Every field on a line of its own, facts indented; lists and objects as they are."""
    for key, value in data.items():
        if key == "facts":
            for fact, what in value.items():
                click.echo(f"  {fact:<14} {_text(what)}")
        else:
            click.echo(f"{key:<16} {_text(value)}")


def _state(device: Device, data: Mapping[str, Any]) -> str:
    reason = f" {escape(device.state_reason)}" if device.state_reason else ""
    attempt = f" {data['attempt'][:12]}" if data["attempt"] else ""
    return f"[{COLOURS[device.state]}]{device.state.value}[/]{attempt}{reason}"


def _address(device: Device, data: Mapping[str, Any]) -> str:
    if device.state is DeviceState.RETIRED:
        return "–"
    return str(data["address"] or "not running").removeprefix("tcp:")


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(what)}" for key, what in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "–"
    return "–" if value in (None, "") else str(value)
