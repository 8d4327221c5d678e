"""`lever models`: add, list and verify model pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.errors import LeverError, UsageError
from orchestrator.settings import Settings, load

if TYPE_CHECKING:
    from orchestrator.models.sources import Report
    from orchestrator.models.store import ModelStore, Pair


@click.group()
def models() -> None:
    """Add, list and verify model pairs: a target, and a draft that proposes its tokens."""


@models.command()
@click.argument("name")
@click.option("--target", type=click.Path(path_type=Path), help="Your own target GGUF.")
@click.option("--draft", type=click.Path(path_type=Path), help="Your own draft GGUF (the target's for a self-draft).")
def add(name: str, target: Path | None, draft: Path | None) -> None:
    """Fetch pair NAME of the catalogue, or pack your own GGUFs as NAME."""
    from orchestrator.models.verify import is_whole

    if (target is None) != (draft is None):
        raise UsageError("--target and --draft go together", "For a self-draft give the same file twice.")
    settings = load()
    store = _store(settings)
    with _progress() as report:
        known = is_whole(store, name, report)
        if target is None or draft is None:
            pair = store.pair(name) if known else _add_catalogued(store, name, report)
        else:
            pair = _add_files(store, name, target, draft, report)
            _write_conf(settings, pair)
    click.echo(f"{pair.name}: {'already there' if known else 'added'}, {_described(pair)}")


@models.command(name="list")
def list_pairs() -> None:
    """Pairs that are added, and those that the catalogue offers."""
    from orchestrator.models.catalogue import PAIRS

    store = _store(load())
    pairs, broken = store.pairs(), store.broken_pairs()
    for pair in pairs:
        click.echo(f"{pair.name}: {_described(pair)}, packs {pair.target_pack[:12]} {pair.draft_pack[:12]}")
    for name, entry in PAIRS.items():
        if name not in {pair.name for pair in pairs} | set(broken):
            size = sum(model.nbytes for model in (entry.target, entry.draft) if model)
            click.echo(f"{name}: not added, {entry.title}; `lever models add {name}` ({size / 1e6:.0f} MB)")
    _refuse_broken({name: [error.message] for name, error in broken.items()})


@models.command()
@click.argument("names", nargs=-1)
def verify(names: tuple[str, ...]) -> None:
    """Hash every file of the pairs NAMES (default: all) and name those that changed."""
    from orchestrator.models.verify import verify_pair

    store = _store(load())
    pairs = [store.pair(name) for name in names] if names else list(store.pairs())
    broken = {} if names else {name: [error.message] for name, error in store.broken_pairs().items()}
    with _progress() as report:
        problems = {pair.name: verify_pair(store, pair, report) for pair in pairs}
    for name in (name for name, found in problems.items() if not found):
        click.echo(f"{name}: all files are as they were packed")
    _refuse_broken(broken | {name: found for name, found in problems.items() if found})


def _refuse_broken(broken: dict[str, list[str]]) -> None:
    """Print what is wrong with each pair, then raise LeverError with how to repair them, if there are any."""
    from orchestrator.models.catalogue import repair

    for name, problems in broken.items():
        click.echo("\n".join(f"{name}: {problem}" for problem in problems))
    if broken:
        raise LeverError(f"{', '.join(broken)}: files are damaged", "\n".join(map(repair, broken)))


def _add_catalogued(store: ModelStore, name: str, report: Report) -> Pair:
    from orchestrator.models.add import add_catalogued
    from orchestrator.models.catalogue import catalogued

    return add_catalogued(store, catalogued(name), report)


def _add_files(store: ModelStore, name: str, target: Path, draft: Path, report: Report) -> Pair:
    from orchestrator.models.add import add_files

    return add_files(store, name, target, draft, report)


def _write_conf(settings: Settings, pair: Pair) -> None:
    """So that Hydra finds `pair=NAME`."""
    file = settings.user_conf / "pair" / f"{pair.name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"name: {pair.name}\n")


def _described(pair: Pair) -> str:
    if pair.self_draft:
        return f"{pair.target_model} (self-draft: for tests)"
    return f"{pair.target_model} drafted by {pair.draft_model}"


def _store(settings: Settings) -> ModelStore:
    from orchestrator.models.store import ModelStore

    return ModelStore(settings.models)


@contextmanager
def _progress() -> Iterator[Report]:
    """A bar for each thing that is being done, on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def report(title: str, done: int, total: int) -> None:
            if title not in tasks:
                tasks[title] = progress.add_task(title, total=total)
            progress.update(tasks[title], completed=min(done, total))

        try:
            yield report
        except OSError as error:
            raise LeverError(f"the model store: {error}", "Check the disk's free space and permissions.") from error
