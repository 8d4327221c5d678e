"""`lever bundle`: build what the agent runs on on a real phone."""

from __future__ import annotations

import click

from orchestrator.errors import UsageError
from orchestrator.settings import load

PROCESSORS = {"arm64": "arm64-v8a"}


@click.group()
def bundle() -> None:
    """Build the runtime that is pushed to phones: Python, numpy, ggml and the agent for their processor."""


@bundle.command()
@click.argument("processor")
@click.option("--jobs", type=click.IntRange(1), help="Compilers at once. Default: as many as there are cores.")
@click.option("--variants", default="", help="Only these of ggml's kernels, e.g. i8mm,armv8: builds faster.")
def build(processor: str, jobs: int | None, variants: str) -> None:
    """Build the bundle for PROCESSOR (arm64). Takes some minutes and the network; replaces what was built before."""
    from orchestrator.bundles.base import build_base
    from orchestrator.farm.bundle import arm64_bundle

    if processor not in PROCESSORS:
        raise UsageError(f"there is no recipe for {processor!r}", f"There is one for {', '.join(PROCESSORS)}.")
    home = load().home
    build_base(home, lambda what: click.echo(f"{what} …", err=True), _chosen(variants), jobs or 0)
    parcel = arm64_bundle(home)
    if parcel is not None:
        click.echo(f"{parcel.hash}  {parcel.nbytes / 1e6:.1f} MB for {PROCESSORS[processor]}, in {parcel.folder}")


def _chosen(text: str) -> dict[str, str]:
    from orchestrator.bundles.recipe import VARIANTS

    names = [name for name in text.split(",") if name] or list(VARIANTS)
    if unknown := [name for name in names if name not in VARIANTS]:
        raise UsageError(f"there is no variant {unknown[0]!r}", f"There are {', '.join(VARIANTS)}.")
    return {name: arch for name, arch in VARIANTS.items() if name in names}
