"""`lever phones calibrate`, and the same as the last step of `lever phones register --pair`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.phone_farm import phone_farm

if TYPE_CHECKING:
    from orchestrator.entities import Device, Progress
    from orchestrator.registry.contract import Registry
    from orchestrator.schema import EngineConf
    from orchestrator.settings import Settings

THREADS, STORAGE, PLACEMENT = 2, "flash", "cpu"  # as the engine's defaults


@click.command()
@click.argument("name")
@click.option("--pair", required=True, help="Whose passes to measure, as `lever models list` shows it.")
@click.option("--threads", type=click.IntRange(1, 256), default=THREADS, show_default=True, help="As engine.threads.")
@click.option(
    "--storage",
    type=click.Choice(["flash", "resident", "mmap"]),
    default=STORAGE,
    show_default=True,
    help="As engine.storage.mode.",
)
@click.option(
    "--placement",
    type=click.Choice(["cpu", "npu", "auto"]),
    default=PLACEMENT,
    show_default=True,
    help="As engine.placement; auto measures the CPU and every accelerator.",
)
@click.option(
    "--cores",
    default="any",
    show_default=True,
    help="As engine.cores; auto tries threads and cores, the flash reader's too, and keeps the best.",
)
@click.option("--reader-cores", default="any", show_default=True, help="As engine.reader_cores.")
@click.option("--again", is_flag=True, help="Measure even if nothing changed.")
def calibrate(name: str, pair: str, storage: str, again: bool, **engine: Any) -> None:
    """Measure what passes of a pair cost on the phone NAME, and how fast its flash is; trials there use it.

    It is kept until the phone's build, the engine, the packs or these settings change; then measure again.
    """
    from device_agent.protocol import CostCalibration, from_json
    from orchestrator.cli.calibrate import print_costs
    from orchestrator.cli.phone_views import calibrating
    from orchestrator.schema import EngineConf, StorageConf

    conf = EngineConf("lever", storage=StorageConf(storage), **engine)
    with phone_farm() as (settings, registry):
        device = registry.device(name)
        with calibrating(name) as report:
            costs, kept = measured(device, pair, settings, registry, report, conf, again)
    print_costs(from_json(CostCalibration, costs))
    click.echo(
        f"{name}: calibration {costs['key']} {'is kept from before (--again measures anew)' if kept else 'is kept'}"
    )


def measured(
    device: Device,
    pair: str,
    settings: Settings,
    registry: Registry,
    report: Callable[[Progress], None],
    conf: EngineConf | None = None,
    again: bool = False,
) -> tuple[dict[str, Any], bool]:
    """CostCalibration as JSON with what `conf` says of threads, cores, storage and placement, and whether it was kept
    from before. Raises LeverError."""
    from device_agent.protocol import to_json
    from orchestrator.cost_key import cost_key
    from orchestrator.farm import cost_calibration
    from orchestrator.farm.connecting import connector
    from orchestrator.schema import EngineConf
    from orchestrator.sweeps.jobs import cores_spec
    from orchestrator.wiring import model_store

    conf = conf or EngineConf("lever")
    store = model_store(settings)
    found = store.pair(pair)
    packs, cores = (found.target_pack, found.draft_pack), cores_spec(conf)
    job = cost_calibration.costs_job(*packs, conf.threads, conf.storage.mode, conf.placement, cores)
    if not again and (kept := registry.costs(device.name, cost_key(device, to_json(job)) or "")):
        return kept, True
    run = cost_calibration.runner(connector(settings), store, settings, report)
    return cost_calibration.calibrate(device, job, registry, run), False
