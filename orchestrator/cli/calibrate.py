"""`lever calibrate`: learn on this machine, with resident weights, how often a pair's draft is right; print what passes
cost here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.sampling_options import sampling_options
from orchestrator.settings import load

if TYPE_CHECKING:
    from device_agent.protocol import AgentEvent, CostCalibration, JobSpec, PromptSpec
    from orchestrator.models.acceptance import Acceptance
    from orchestrator.models.edge_fit import Score
    from orchestrator.models.predictor import PruningReport
    from orchestrator.models.store import ModelStore, Pair

DRAFT_K = 8  # draft tokens a round while learning: deep enough to see what becomes of good guesses
N_CTX = 1024
PROMPTS = "workload/calibration.yaml"


@click.command()
@click.argument("pair_name", metavar="PAIR")
@click.option("--rounds", type=click.IntRange(min=2), default=300, show_default=True, help="Rounds to learn from.")
@click.option("--threads", type=click.IntRange(1, 256), default=2, show_default=True)
@sampling_options
def calibrate(pair_name: str, rounds: int, threads: int, **sampling: Any) -> None:
    """Learn how often PAIR's draft is right under this sampling, from the bundled calibration prompts.

    Sweeps with engine=lever use it by themselves; they are refused the prompts that it was learnt from.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from device_agent.protocol import STATES
    from orchestrator.farm.local_agent import run_here
    from orchestrator.models import acceptance
    from orchestrator.models.predictor import learn_predictor, recorded_layers
    from orchestrator.models.store import ModelStore
    from orchestrator.schema import SamplingConf
    from orchestrator.sweeps.jobs import sampling_spec

    settings = load()
    store = ModelStore(settings.models)
    pair, chosen = store.pair(pair_name), sampling_spec(SamplingConf(**sampling))
    prompts = calibration_prompts(store, pair)
    spec = _job(store, pair, prompts, threads)
    n_layers = store.manifest(pair.target_pack).hyper.n_layers
    recording = spec(kind="edges", max_rounds=rounds, sampling=chosen, state_layers=recorded_layers(n_layers))
    with _status() as on_event, TemporaryDirectory() as folder:
        states = Path(folder) / STATES
        edges = run_here(settings, recording, on_event, states).edges
        costs = run_here(settings, spec(kind="costs", prompts=()), on_event).costs
        found = acceptance.learnt(pair, chosen, prompts, edges)
        if costs is not None:
            report, layers = learn_predictor(states, edges, found.edges.weights, costs, n_layers)
            found = acceptance.with_predictor(found, report, layers)
    acceptance.save(store, found)
    _print(pair, found)
    if costs is not None:
        print_costs(costs)


def calibration_prompts(store: ModelStore, pair: Pair) -> tuple[PromptSpec, ...]:
    """The bundled ones, as the pair's tokens."""
    from importlib.resources import files

    import yaml

    from orchestrator.schema import WorkloadConf
    from orchestrator.sweeps.workload import encode_prompts, read_prompts

    conf = WorkloadConf(**yaml.safe_load((files("orchestrator.conf") / PROMPTS).read_text(encoding="utf-8")))
    return encode_prompts(read_prompts(conf), store.tokenizer(pair.name), conf.chat)


def _job(store: ModelStore, pair: Pair, prompts: tuple[PromptSpec, ...], threads: int) -> Callable[..., JobSpec]:
    """Makes a calibrating job; given fields differ."""
    from dataclasses import replace

    from device_agent.protocol import PROTOCOL_VERSION, EngineSpec, JobSpec, StorageSpec

    engine = EngineSpec("chain", DRAFT_K, storage=StorageSpec("resident"), threads=threads, n_ctx=N_CTX)
    job = JobSpec(
        version=PROTOCOL_VERSION,
        attempt_id="calibrate",
        trial_id="",
        target_pack=pair.target_pack,
        draft_pack=pair.draft_pack,
        engine=engine,
        prompts=prompts,
        max_new_tokens=128,
        stop_token_ids=pair.stop_token_ids,
        packs_dir=str(store.packs),
    )
    return lambda **changes: replace(job, **changes)


@contextmanager
def _status() -> Iterator[Callable[[AgentEvent], None]]:
    """One live line on stderr about what the agent does."""
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:

        def on_event(event: AgentEvent) -> None:
            if event.kind == "edges":
                status.update(f"learning: {event.data['rounds']} of {event.data['of']} rounds")
            elif event.kind in ("loaded", "done"):
                status.update("measuring" if event.kind == "loaded" else "fitting")

        yield on_event


def _print(pair: Pair, found: Acceptance) -> None:
    fit = found.fit
    click.echo(
        f"{pair.name}: {fit.places} places of {len(found.prompts)} prompts; the draft's best token was chosen at "
        f"{fit.first_choice:.1%}"
    )
    click.echo(f"held out, built-in prior: {_scored(fit.prior)}")
    click.echo(f"held out, fitted:         {_scored(fit.fitted) if fit.fitted else 'too few prompts to say'}")
    kept = "the fitted weights" if fit.better else "the prior's weights, which the fitted ones do not beat"
    click.echo(f"calibration {found.edges.key} keeps {kept}: {', '.join(f'{w:.3f}' for w in found.edges.weights)}")
    _print_pruning(found.pruning)


def _print_pruning(report: PruningReport) -> None:
    for one in report.layers:
        kept = (
            "no limit keeps enough" if one.recall is None else f"at held-out recall {one.recall:.3f} {one.removed:.0%}"
        )
        by_draft = "" if one.known_removed is None else f" (by the draft's own probabilities {one.known_removed:.0%})"
        click.echo(
            f"after layer {one.layer}: {_auc(one.known_auc)} → {_auc(one.auc)}; {kept} of wrong nodes go{by_draft}; "
            f"speed {one.speedup:.3f}, of a perfect pruner {one.headroom:.3f}, of the best trees without pruning"
        )
    click.echo(f"pruning is {'on' if report.useful else 'off'} for this pair: {report.why}")


def _scored(score: Score) -> str:
    return f"log loss {score.log_loss:.5f}, {_auc(score.auc)}"


def _auc(auc: float | None) -> str:
    return "no AUC (all fared alike)" if auc is None else f"AUC {auc:.4f}"


def print_costs(costs: CostCalibration) -> None:
    """What passes cost, by tokens or rows."""
    from rich.console import Console
    from rich.table import Table

    curves = {
        "draft": costs.draft,
        "draft output": costs.draft_project,
        "verify": costs.verify,
        "output": costs.project,
    }
    sizes = sorted({size for curve in curves.values() for size, _ in curve.seconds})
    table = Table("ms", *map(str, sizes), title=f"a pass over n tokens ({costs.threads} threads, {costs.storage_mode})")
    for name, curve in curves.items():
        known = dict(curve.seconds)
        table.add_row(name, *(f"{known[size] * 1e3:.1f}" if size in known else "" for size in sizes))
    Console().print(table)
    print_core_trials(costs)
    for chunk_kib, threads, mb_s in costs.bandwidth_mb_s:
        click.echo(f"flash, {chunk_kib} KiB pieces, {threads} reader threads: {mb_s:.0f} MB/s")


def print_core_trials(costs: CostCalibration) -> None:
    """What a round takes on the cores that were tried, the shortest first; the chosen ones are marked."""
    from rich.console import Console
    from rich.table import Table

    from device_agent.protocol import said_cores

    if not costs.core_trials:
        return
    table = Table("", "threads", "on cores", "reader on", "round, ms", "computing, ms", title="threads and cores tried")
    for trial in sorted(costs.core_trials, key=lambda trial: trial.round_s):
        chosen = (trial.threads, trial.cores) == (costs.threads, costs.cores)
        where = (said_cores(trial.cores.compute), said_cores(trial.cores.readers))
        times = (f"{trial.round_s * 1e3:.0f}", f"{trial.compute_s * 1e3:.0f}")
        table.add_row("→" if chosen else "", str(trial.threads), *where, *times)
    Console().print(table)
