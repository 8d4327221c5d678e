"""Kill a farm again and again while it works on a sweep; then hold what it says against an undisturbed run.

`make chaos` (SEED=, KILLS=, TRIALS=). Exits with 1 when a trial was lost, run to its end twice, or ended otherwise than
undisturbed. The report is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.entities import DeviceState, Trial, TrialState
from orchestrator.errors import RegistryError
from orchestrator.registry.contract import Registry
from orchestrator.registry.sql import open_registry
from tests.chaos.farm import RECOVERY_S, ChaosFarm
from tests.chaos.plan import Kill, next_kill
from tests.fakes import mlflow_store
from tests.fakes.live_farm import until

NAME = "chaos"
REST_S = 10.5  # a controller that lived longer is restarted at once
COMES_S, SELDOM_S = 3.0, 11.0  # how long a failpoint is waited for; leases are renewed every ten seconds
SELDOM = {"adopt", "renew"}
DONE_S = 1800.0
KEPT = (
    "acceptance_length",
    "block_efficiency",
    "output_tokens",
    "exact_tokens",
    "tie_tokens",
    "diverged_tokens",
    "rounds",
)


@dataclass
class Report:
    seed: int
    trials: int
    kills: dict[str, int] = field(default_factory=dict)
    at_failpoints: int = 0  # between the last statement and the commit, or between a commit and what follows
    while_trials_ran: int = 0  # of those at random moments
    missed: int = 0  # nobody came to the failpoint, or played the part
    released: int = 0  # quarantines lifted, as a person would
    attempts: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.kills.values())


class Driver:
    def __init__(self, farm: ChaosFarm, report: Report, repeats: int) -> None:
        self.farm, self.report = farm, report
        self.dice = random.Random(report.seed)
        self.sweep = [
            *("sweep", "-m", "pair=tiny", "engine=autoregressive,chain", "workload=demo", "workload.limit=1"),
            *("workload.max_new_tokens=8", "schedule.exclusive_host=false", f"schedule.repeats={repeats}"),
            f"sweep={NAME}",
        ]
        self.cli: subprocess.Popen[str] | None = None
        self.rested_at = 0.0

    def registry(self) -> Registry:
        return open_registry(self.farm.settings.registry_url)

    def run(self, kills: int, within_s: float) -> None:
        """Until so many processes were killed, the time is over, or the sweep is."""
        end = time.monotonic() + within_s
        self.submit()
        while self.report.total < kills and time.monotonic() < end and not self.over():
            self.strike(next_kill(self.dice, light=time.monotonic() < self.rested_at))

    def submit(self) -> None:
        """The same command again follows the sweep; when the CLI is killed, so is its output."""
        if self.cli is None or self.cli.poll() is not None:
            self.cli = self.farm.start(*self.sweep)
            threading.Thread(target=self.cli.communicate, daemon=True).start()

    def over(self) -> bool:
        with closing(self.registry()) as registry:
            names = [s.name for s in registry.sweeps()]
            return NAME in names and NAME not in [s.name for s in registry.unfinished()]

    def strike(self, kill: Kill) -> None:
        threading.Event().wait(kill.wait_s)
        running = self.running()
        if kill.point:
            died = self.at_failpoint(kill)
        else:
            died = self.kill_cli() if kill.part == "cli" else self.farm.kill(kill.part, kill.choose)
        if not died:
            self.report.missed += 1
            return
        self.note(str(kill))
        self.report.at_failpoints += bool(kill.point)
        self.report.while_trials_ran += bool(running) and not kill.point
        self.mend()
        if kill.part in ("controller", "head", "supervisor"):
            self.rested_at = time.monotonic() + REST_S

    def note(self, killed: str) -> None:
        self.report.kills[killed] = self.report.kills.get(killed, 0) + 1
        print(f"{self.report.total}: {killed}", file=sys.stderr, flush=True)

    def at_failpoint(self, kill: Kill) -> bool:
        """Of a submission by another command line, of an adoption by the next controller."""
        if kill.part == "cli":
            self.kill_cli()
        self.farm.arm(kill.role, kill.point, kill.when)
        if kill.part == "cli":
            self.submit()
        if kill.point == "adopt" and self.farm.kill("controller", 0):
            self.note("controller")
        return self.farm.fired(SELDOM_S if kill.point in SELDOM else COMES_S)

    def kill_cli(self) -> bool:
        if self.cli is None or self.cli.poll() is not None:
            return False
        self.cli.kill()
        self.cli.wait()
        return True

    def mend(self) -> None:
        self.farm.mend()
        self.submit()
        with closing(self.registry()) as registry:
            for device in registry.devices():
                if device.state is not DeviceState.READY and device.state is not DeviceState.BUSY:
                    registry.set_device_state(device.name, DeviceState.READY)
                    self.report.released += device.state is DeviceState.QUARANTINED

    def running(self) -> int:
        try:
            with closing(self.registry()) as registry:
                return len(registry.running())
        except RegistryError:
            return 0

    def finish(self) -> list[Trial]:
        """Let it come to its end, undisturbed now."""
        self.mend()
        until(self.mended_over, "the sweep ended", DONE_S)
        with closing(self.registry()) as registry:
            until(lambda: not registry.outbox(1), "everything reached MLflow", RECOVERY_S)
            until(lambda: not registry.underived(1), "everything was compared", RECOVERY_S)
            return registry.trials(registry.sweep(NAME).sweep_id)

    def mended_over(self) -> bool:
        threading.Event().wait(1.0)
        self.mend()
        return self.over()


def told(trial: Trial) -> dict[str, Any]:
    """What does not depend on the clock: texts, counts, verdicts."""
    result = trial.result or {}
    texts = [request["output_ids"] for request in result.get("requests", [])]
    metrics = {key: result.get("metrics", {}).get(key) for key in KEPT}
    return {"state": trial.state.value, "texts": texts, "exactness": result.get("tags", {}).get("exactness"), **metrics}


def check_once(report: Report, registry: Registry, trials: Iterable[Trial], expected: int) -> None:
    """Every trial is there, done, by one attempt, with one trial_done event."""
    ended = Counter(e.trial_id for e in events(registry) if e.kind == "trial_done")
    found = list(trials)
    if len(found) != expected:
        report.wrong.append(f"{len(found)} trials instead of {expected}")
    for trial in found:
        attempts = registry.attempts(trial.spec.trial_id)
        report.attempts += len(attempts)
        good = sum(a.state.value == "done" for a in attempts)
        if trial.state is not TrialState.DONE or good != 1 or ended[trial.spec.trial_id] != 1:
            said = (
                f"{trial.state}, {good} good attempts, {ended[trial.spec.trial_id]} times done: {trial.failure_message}"
            )
            report.wrong.append(f"trial {trial.spec.trial_id} is {said}")
        if trial.charged_failures:
            report.wrong.append(f"trial {trial.spec.trial_id} was charged {trial.charged_failures} of our kills")


def events(registry: Registry) -> Iterable[Any]:
    after = 0
    while found := registry.events(after, limit=5000):
        yield from found
        after = found[-1].event_id


def check_mlflow(report: Report, uri: str, trials: Iterable[Trial]) -> None:
    """One finished run a trial, its figures those of the registry, each logged once."""
    client = mlflow_store.client(uri)
    experiment = client.get_experiment_by_name(NAME)
    runs: list[Any] = list(client.search_runs([experiment.experiment_id], max_results=5000))
    by_trial = Counter(run.data.tags.get("trial", "") for run in runs)
    wanted = {t.spec.trial_id: t for t in trials}
    report.wrong += [f"{by_trial[t]} runs of trial {t}" for t in wanted if by_trial[t] != 1]
    for run in runs:
        trial = wanted.get(run.data.tags.get("trial", ""))
        measured = (trial.result or {}).get("metrics", {}) if trial else {}
        if trial and (run.info.status != "FINISHED" or run.data.metrics.get("tpot_s") != measured.get("tpot_s")):
            report.wrong.append(
                f"run of trial {trial.spec.trial_id}: {run.info.status}, {run.data.metrics.get('tpot_s')}"
            )


def main(seed: int, kills: int, trials: int, phones: int, within_s: float) -> Report:
    repeats = max(1, trials // (2 * phones))
    report = Report(seed, repeats * 2 * phones)
    with tempfile.TemporaryDirectory(prefix="lever-chaos-", dir="/tmp", ignore_cleanup_errors=True) as home:
        farm = ChaosFarm(Path(home), phones)
        try:
            farm.start_all()
            _run(Driver(farm, report, repeats), kills, within_s)
        finally:
            farm.stop_all()
    return report


def _run(driver: Driver, kills: int, within_s: float) -> None:
    report, began = driver.report, time.monotonic()
    driver.run(kills, within_s)
    ended = driver.finish()
    report.seconds = round(time.monotonic() - began, 1)
    with closing(driver.registry()) as registry:
        check_once(report, registry, ended, report.trials)
    check_mlflow(report, driver.farm.settings.tracking_uri, ended)
    driver.kill_cli()
    undisturbed = _undisturbed(driver)
    for trial in ended:
        if told(trial) != undisturbed[_kind(trial)]:
            report.wrong.append(f"trial {trial.spec.trial_id}: {told(trial)}, undisturbed {undisturbed[_kind(trial)]}")


def _undisturbed(driver: Driver) -> dict[tuple[str, str], dict[str, Any]]:
    """What every configuration says on every phone with nobody killing anything: the first repeat, measured anew. That
    the others must say the same is what determinism means."""
    again = ["schedule.repeats=1" if word.startswith("schedule.repeats=") else word for word in driver.sweep]
    said = driver.farm.lever(*again, "on_existing=rerun", timeout_s=DONE_S)
    assert f"{2 * len(driver.farm.phones)} to run" in said, said
    return {_kind(trial): told(trial) for trial in driver.finish() if trial.spec.repeat == 0}


def _kind(trial: Trial) -> tuple[str, str]:
    return trial.spec.labels["config_key"], trial.device or ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--trials", type=int, default=304)
    parser.add_argument("--phones", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=7200.0, help="kill no longer than this")
    asked = parser.parse_args()
    done = main(asked.seed, asked.kills, asked.trials, asked.phones, asked.seconds)
    print(json.dumps(asdict(done) | {"total": done.total}, indent=1))
    sys.exit(bool(done.wrong))
