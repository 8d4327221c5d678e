"""`lever host join`: two machines, as two network namespaces joined by a cable, each with a folder and a phone of its
own. The cable is pulled while a sweep runs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.entities import TrialState
from orchestrator.ray_token import token_path
from tests.fakes.live_farm import STREAMED, SWEEP, LiveFarm, decoding, output, until
from tests.fakes.mtu_link import inside, mtu_link

pytestmark = pytest.mark.slow
HEAD = "10.213.7.1:6401"  # the first machine's end of the cable
PHONES = {"one": "oneplus12", "two": "pixel8"}


@dataclass
class Machine:
    """A farm folder whose commands run in one namespace."""

    farm: LiveFarm
    namespace: str

    def start(self, *words: str) -> subprocess.Popen[str]:
        with inside(self.namespace):
            return self.farm.start(*words)

    def lever(self, *words: str, timeout_s: float = 240.0) -> str:
        return output(self.start(*words), timeout_s)

    def fails(self, *words: str) -> str:
        """What a command that must fail says."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=120.0)
        assert process.returncode in (1, 2), said
        return said


@dataclass
class Machines:
    one: Machine
    two: Machine

    def hosts(self) -> list[str]:
        return list(json.loads(self.one.lever("status", "--json"))["hosts"])

    def pull(self, out: bool) -> None:
        subprocess.run(["ip", "-n", self.two.namespace, "link", "set", "cable", "down" if out else "up"], check=True)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lever-join-", dir="/tmp")))
        link = stack.enter_context(mtu_link())
        made = Machines(_machine(folder, "one", link.host), _machine(folder, "two", link.phone))
        databases = {
            "LEVER_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
            "LEVER_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        }
        made.one.farm.environment |= databases
        made.one.farm.settings = replace(
            made.one.farm.settings,
            registry_url=databases["LEVER_REGISTRY_URL"],
            tracking_uri=databases["LEVER_TRACKING_URI"],
            host="one",
        )
        for machine in (made.one, made.two):
            stack.callback(machine.lever, "down")
            target, draft = machine.farm.write_pair()
            machine.lever("models", "add", "tiny", "--target", str(target), "--draft", str(draft))
        made.one.lever("up", "--listen", HEAD)
        yield made


def _machine(folder: Path, host: str, namespace: str) -> Machine:
    (folder / host).mkdir()
    farm = LiveFarm(folder / host)
    farm.environment |= {"LEVER_HOST": host}
    return Machine(farm, namespace)


def test_what_cannot_join_is_told_why_and_leaves_nothing(machines: Machines) -> None:
    two = machines.two
    assert "no authentication token" in two.fails("host", "join", HEAD)
    token = token_path(two.farm.settings)
    token.write_text("0" * 64)
    assert "does not take this authentication token" in two.fails("host", "join", HEAD)
    token.write_text(token_path(machines.one.farm.settings).read_text())
    assert "no Ray head answers" in two.fails("host", "join", "10.213.7.1:6402")
    assert not (two.farm.home / "joined.json").exists()
    assert "down" in two.lever("status")


def test_phones_of_a_joined_host_run_the_farms_trials(machines: Machines) -> None:
    assert "two is a host of the farm" in machines.two.lever("host", "join", HEAD)
    until(lambda: machines.hosts() == ["one", "two"], "both are hosts", 120.0)
    assert f"Host of the farm at {HEAD}" in machines.two.lever("status")
    machines.one.lever("phones", "register", "virtual:oneplus12", "--name", PHONES["one"])
    machines.two.lever("phones", "register", "virtual:pixel8", "--name", PHONES["two"])
    assert "4 done" in machines.one.lever(*SWEEP, "workload.limit=1", "sweep=both", timeout_s=400.0)
    with machines.one.farm.registry() as registry:
        assert {registry.device(phone).host for phone in PHONES.values()} == set(PHONES)
        assert {trial.device for trial in registry.trials("both")} == set(PHONES.values())
    assert list((machines.two.farm.home / "phones" / PHONES["two"]).rglob("result.json"))


def test_a_host_lost_while_it_works_and_back_loses_no_trial(machines: Machines) -> None:
    words = (*SWEEP, *STREAMED, "workload.limit=2", f"phones={PHONES['two']}", "sweep=cut")
    sweep = machines.one.start(*words)
    with machines.one.farm.registry() as registry:
        until(lambda: decoding(registry), "a trial decodes on the joined host's phone", 240.0)
        machines.pull(out=True)
        until(lambda: machines.hosts() == ["one"], "the host is missed", 180.0)
        machines.pull(out=False)
        assert "2 done" in output(sweep, 500.0)
        trials = registry.trials("cut")
        assert [trial.state for trial in trials] == [TrialState.DONE] * 2
        done = [event for event in registry.events(limit=100_000) if event.kind == "trial_done"]
        assert len({event.trial_id for event in done}) == len(done)
    assert machines.hosts() == ["one", "two"]


def test_leaving_forgets_the_farm(machines: Machines) -> None:
    assert "has left the farm" in machines.two.lever("host", "leave")
    assert "No farm was joined" in machines.two.lever("host", "leave")
    until(lambda: machines.hosts() == ["one"], "it has left", 120.0)
