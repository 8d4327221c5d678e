"""The service with real processes, Ray included: brought up once, and then broken in one way after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from device_agent.virtual.ask import ask
from orchestrator.entities import DeviceState, Trial, TrialState
from orchestrator.farm import virtual_phones
from orchestrator.ray_runtime import heartbeat
from orchestrator.service import state
from orchestrator.service.down import down
from tests.fakes.live_farm import STREAMED, SWEEP, LiveFarm, decoding, output, until

PHONE = "oneplus12"


@pytest.fixture(scope="module")
def farm() -> Iterator[LiveFarm]:
    """Brought up by two `lever up` at once."""
    with tempfile.TemporaryDirectory(prefix="lever-farm-") as home:
        farm = LiveFarm(Path(home))
        farm.prepare(PHONE)
        try:
            texts = [output(up) for up in [farm.start("up"), farm.start("up")]]
            assert sorted("already" in text for text in texts) == [False, True], texts
            yield farm
        finally:
            down(farm.settings, print)


def service(farm: LiveFarm) -> state.Service:
    found = state.read(farm.settings)
    assert found is not None
    return found


def controller_pid(farm: LiveFarm) -> int | None:
    beat = heartbeat.read_beat(farm.settings, service(farm).run_id)
    return beat.pid if beat and beat.fresh() else None


def kill(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    until(lambda: not living([process]), f"{pid} is gone")


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def only_trial(farm: LiveFarm, sweep: str) -> Trial:
    with farm.registry() as registry:
        (trial,) = registry.trials(registry.sweep(sweep).sweep_id)
        return trial


def run_one(farm: LiveFarm, sweep: str, tokens: int) -> subprocess.Popen[str]:
    """A sweep of one trial that decodes when this returns; another number of tokens makes it another trial."""
    args = [a if not a.startswith("engine=") else "engine=autoregressive" for a in SWEEP]
    process = farm.start(*args, *STREAMED, f"sweep={sweep}", "workload.limit=1", f"workload.max_new_tokens={tokens}")
    with farm.registry() as registry:
        until(lambda: decoding(registry), f"an attempt of {sweep} that decodes")
    return process


def test_status_names_processes_phones_and_nothing_in_progress(farm: LiveFarm) -> None:
    found = json.loads(farm.lever("status", "--json"))
    assert found["state"] == "up"
    for key in ("supervisor_pid", "head_pid", "controller_pid"):
        assert psutil.pid_exists(found[key])
    assert [phone["name"] for phone in found["phones"]] == [PHONE]
    assert found["sweeps"] == []
    assert PHONE in farm.lever("status")


def test_ray_listens_on_loopback_only(farm: LiveFarm) -> None:
    below = service(farm).below()
    assert {"raylet", "gcs_server"} <= {process.name() for process in below}
    listening = [
        connection.laddr.ip
        for process in below
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} <= {"127.0.0.1", "::1"}


def test_the_controller_is_as_nice_as_the_phones(farm: LiveFarm) -> None:
    pid = until(lambda: controller_pid(farm), "the controller's heart beats")
    assert psutil.Process(pid).nice() == psutil.Process(service(farm).supervisor.pid).nice()


def test_attaching_to_a_farm_that_is_up_starts_nothing_and_needs_no_ray(farm: LiveFarm) -> None:
    subprocess.run([sys.executable, "-c", ATTACH], env=farm.environment, cwd=farm.home, check=True)


ATTACH = """
import sys
from orchestrator.service.up import ensure_up
from orchestrator.settings import load
assert ensure_up(load(), print) is False
assert "ray" not in sys.modules
"""


def test_a_killed_controller_comes_back_and_goes_on_with_the_attempt(farm: LiveFarm) -> None:
    sweep = run_one(farm, "controller", 30)
    killed = controller_pid(farm)
    assert killed
    kill(killed)
    output(sweep)
    assert controller_pid(farm) not in (None, killed)
    trial = only_trial(farm, "controller")
    assert (trial.state, trial.attempts) == (TrialState.DONE, 1)


def test_a_killed_host_worker_finds_its_attempt_again(farm: LiveFarm) -> None:
    sweep = run_one(farm, "worker", 31)
    workers = [process for process in service(farm).below() if "HostWorker" in "".join(process.cmdline())]
    assert workers
    for worker in workers:
        kill(worker.pid)
    output(sweep)
    trial = only_trial(farm, "worker")
    assert (trial.state, trial.attempts) == (TrialState.DONE, 1)


def test_a_killed_phone_is_started_again(farm: LiveFarm) -> None:
    before = virtual_phones.address_of(farm.settings, PHONE)
    assert before
    kill(json.loads((farm.settings.phones / PHONE / "phone.json").read_text())["pid"])
    until(lambda: virtual_phones.address_of(farm.settings, PHONE), "the phone is back")


def test_phones_are_watched(farm: LiveFarm) -> None:
    root = farm.settings.phones / PHONE
    with farm.registry() as registry:
        until(lambda: registry.device(PHONE).state is DeviceState.READY, "the phone is ready")
        ask(root, "unauthorized")
        until(lambda: registry.device(PHONE).state is DeviceState.UNAUTHORIZED, "the revoked key is noticed")
        assert "does not trust our key" in farm.lever("status")
        ask(root, "authorize")
        until(lambda: registry.device(PHONE).state is DeviceState.READY, "the key that is allowed again is noticed")


def test_up_after_a_killed_supervisor_ends_its_leavings_and_adopts_the_attempt(farm: LiveFarm) -> None:
    sweep = run_one(farm, "supervisor", 32)
    before = service(farm)
    left = before.below()
    assert left
    kill(before.supervisor.pid)
    assert json.loads(farm.lever("status", "--json"))["state"] == "died"
    assert "ended" in farm.lever("up")
    assert living(left) == []
    assert service(farm).run_id != before.run_id
    output(sweep)
    trial = only_trial(farm, "supervisor")
    assert (trial.state, trial.attempts) == (TrialState.DONE, 1)


def test_down_twice_leaves_nothing_of_ours_and_all_of_others(farm: LiveFarm) -> None:
    decoy = subprocess.Popen([sys.executable, "-c", "input()", "raylet", str(farm.home)], stdin=subprocess.PIPE)
    before = service(farm)
    ours = [*before.below(), psutil.Process(before.supervisor.pid)]
    phone = psutil.Process(json.loads((farm.settings.phones / PHONE / "phone.json").read_text())["pid"])
    assert len(ours) > 4
    assert "already" not in farm.lever("down")
    assert living([*ours, phone]) == []
    assert not Path(before.temp_dir).exists()
    assert json.loads(farm.lever("status", "--json"))["state"] == "down"
    assert "already" in farm.lever("down")
    assert decoy.poll() is None
    decoy.communicate()
