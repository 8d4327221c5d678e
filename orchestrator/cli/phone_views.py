"""How phones look in a terminal: steps of a registration, the table of all, the details of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from orchestrator.entities import Attempt, Device, DeviceState, FarmEvent, Progress
from orchestrator.farm import virtual_phones
from orchestrator.farm.garbage import Collected
from orchestrator.farm.steps import Step
from orchestrator.service.status import standing, why_not
from orchestrator.settings import Settings

CLOCK = "%Y-%m-%d %H:%M:%S"
MOST = {"phone": 18, "model": 10}  # characters, in 80 columns
WIDE = 110  # columns

COLOURS = {
    DeviceState.READY: "green",
    DeviceState.BUSY: "cyan",
    DeviceState.COOLING: "yellow",
    DeviceState.LOW_BATTERY: "yellow",
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
            elif progress.kind == "agent_event" and progress.data.get("kind") == "cores":
                tried = progress.data["data"]
                status.update(f"{escape(name)}: trying cores, {tried['done']} of {tried['of']}")

        yield report


class StepPrinter:
    """A line for every step that is done or asks for something, a spinner for the one that goes on."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._status = Status("", console=self._console)

    def __enter__(self) -> StepPrinter:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, step: Step) -> None:
        if step.asks:
            self._console.print(f"[yellow]?[/] {step.name:<11} {escape(step.asks)}", soft_wrap=True)
        elif step.detail is None:
            self._status.update(f"{step.name}…" + ("" if step.share is None else f" {step.share:.0%}"))
        else:
            self._console.print(f"[green]✓[/] {step.name:<11} {escape(step.detail)}", soft_wrap=True)


def label(device: Device) -> str:
    return f"virtual, {device.facts.get('profile', 'unknown profile')}" if device.simulated else device.kind


def as_data(device: Device, settings: Settings, attempt: Attempt | None) -> dict[str, Any]:
    """JSON-ready; `address` is where a virtual phone of this host listens now, None when it does not run."""
    data = asdict(device) | {"simulated": device.simulated, "attempt": attempt.attempt_id if attempt else None}
    data["state"] = standing(device, attempt)
    if device.simulated and device.name in virtual_phones.names(settings):
        data["address"] = virtual_phones.address_of(settings, device.name)
    return data


def print_table(devices: Sequence[Device], settings: Settings, attempts: Mapping[str, Attempt]) -> None:
    """Fits into 80 columns, and tells more where there are more; what the states' reasons are follows below."""
    console = Console(highlight=False)
    wide = console.width >= WIDE
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("phone", "kind", "state", "for", "model", *(("SoC", "RAM") if wide else ()), "address"):
        most = None if wide else MOST.get(heading)
        table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=most)
    notes: list[str] = []
    for device in devices:
        data, facts = as_data(device, settings, attempts.get(device.name)), device.facts
        more = (escape(str(facts.get("soc", ""))), f"{facts.get('ram_mb', 0) / 1024:.0f} GB") if wide else ()
        table.add_row(
            escape(device.name),
            device.kind,
            f"[{COLOURS[data['state']]}]{data['state'].value}[/]",
            _age(device.state_since),
            escape(str(facts.get("model", ""))),
            *more,
            escape(_address(device, data)),
        )
        notes += _notes(device, data)
    console.print(table)
    for note in notes:
        console.print(escape(note), soft_wrap=True)


def print_details(data: Mapping[str, Any], history: Sequence[FarmEvent]) -> None:
    """Every field on a line of its own, facts indented; lists and objects as they are; then its states of before."""
    for key, value in data.items():
        if key == "facts":
            for fact, what in value.items():
                click.echo(f"  {fact:<14} {_text(what)}")
        elif key == "state_since":
            click.echo(f"{key:<16} {_clock(value)}")
        else:
            click.echo(f"{key:<16} {_text(value)}")
    click.echo("history")
    for event in history:
        at = event.at.astimezone().strftime(CLOCK) if event.at else "–"
        click.echo(f"  {at}  {event.data['state']:<12} {event.data['reason']}".rstrip())


def print_garbage(device: Device, found: Collected, dry_run: bool) -> None:
    """What went from one phone, and what stays."""
    if found.free_bytes is None:
        click.echo(f"{device.name}: nothing of ours is there")
        return
    would = "would go" if dry_run else "gone"
    for item in found.taken:
        size, unused = f"{item.nbytes / 1e6:.0f} MB", _span(item.age_s)
        click.echo(f"{device.name}: {item.path[:24]}… {size}, unused for {unused}: {would}")
    taken, kept = (sum(item.nbytes for item in items) / 1e6 for items in (found.taken, found.kept))
    jobs = f", {len(found.jobs)} old job folders removed" if found.jobs else ""
    free = f"free before: {found.free_bytes / 1e9:.1f} GB"
    click.echo(f"{device.name}: {taken:.0f} MB {would}, {kept:.0f} MB kept{jobs}; {free}")


def as_history(events: Sequence[FarmEvent]) -> list[dict[str, Any]]:
    """JSON-ready, newest first."""
    return [{"at": event.at.isoformat() if event.at else None, **event.data} for event in events]


def _notes(device: Device, data: Mapping[str, Any]) -> list[str]:
    notes = [f"{device.name}: {why_not(device)}"] if why_not(device) else []
    if data["attempt"]:
        word = "is at" if data["state"] is DeviceState.BUSY else "was left with"
        notes.append(f"{device.name} {word} {data['attempt']}")
    return notes


def _age(since: float) -> str:
    """For how long, in one unit; `–` when nobody noted it."""
    if not since:
        return "–"
    return _span(max(0.0, time.time() - since))


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _clock(since: float) -> str:
    return datetime.fromtimestamp(since).strftime(CLOCK) if since else "–"


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
