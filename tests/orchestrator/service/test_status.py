import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.entities import DeviceState
from orchestrator.errors import FarmError
from orchestrator.processes import ProcessId, identify
from orchestrator.ray_runtime import heartbeat
from orchestrator.ray_runtime.heartbeat import Head
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.run_files import write_json
from orchestrator.service import state
from orchestrator.service.down import down, end_service
from orchestrator.service.status import status
from orchestrator.service.up import ensure_up, running
from orchestrator.settings import Settings
from tests.fakes import farm

RUN = "run-1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, "sqlite:///registry.db", "sqlite:///mlflow.db", "desk")


def service(tmp_path: Path, supervisor: ProcessId | None = None) -> state.Service:
    folder = tmp_path / "lever-ray-temp"
    folder.mkdir(exist_ok=True)
    return state.Service(
        RUN, supervisor or identify(os.getpid()), os.getsid(0), "sqlite:///registry.db", str(folder), head_failures=1
    )


def dead_process() -> ProcessId:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(process.pid)
    process.communicate()
    return identity


def test_a_fresh_home_is_down(settings: Settings) -> None:
    found = status(settings, MemoryRegistry())
    assert (found.state, found.supervisor_pid, found.phones, found.sweeps) == ("down", None, (), ())


def test_up_means_that_the_controller_of_this_very_run_answers(settings: Settings, tmp_path: Path) -> None:
    state.write(settings, service(tmp_path))
    heartbeat.write_beat(settings, "another-run", 0)
    assert status(settings, MemoryRegistry()).state == "starting"
    heartbeat.write_head(settings, Head(RUN, 7, "127.0.0.1:6", controller_restarts=2, error="its process died"))
    heartbeat.write_beat(settings, RUN, 0)
    found = status(settings, MemoryRegistry())
    assert (found.state, found.supervisor_pid, found.controller_pid) == ("up", os.getpid(), os.getpid())
    assert (found.ray_address, found.controller_restarts, found.error) == ("127.0.0.1:6", 2, "its process died")
    assert running(settings)


def test_an_old_heartbeat_is_none(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state.write(settings, service(tmp_path))
    heartbeat.write_beat(settings, RUN, 0)
    monkeypatch.setattr(heartbeat, "FRESH_S", 0.0)
    assert not running(settings)


def test_a_dead_supervisor_is_told_and_its_leavings_forgotten(settings: Settings, tmp_path: Path) -> None:
    left = service(tmp_path, dead_process())
    state.write(settings, left)
    heartbeat.write_beat(settings, RUN, 0)
    assert status(settings, MemoryRegistry()).state == "died"
    assert not running(settings)
    assert end_service(settings, _quiet) is False
    assert not Path(left.temp_dir).exists()
    assert status(settings, MemoryRegistry()).state == "down"
    assert down(settings, _quiet) is False


def test_another_versions_file_is_not_understood_and_not_followed(settings: Settings) -> None:
    write_json(settings.run / "supervisor.json", {"pid": 1, "format": "new"})
    assert status(settings, MemoryRegistry()).state == "down"


def test_phones_and_unfinished_sweeps_are_listed(settings: Settings) -> None:
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    registry.put_device(farm.phone("old", DeviceState.RETIRED))
    farm.submit(registry, "t1", "t2")
    farm.submit(registry, "t3", sweep="over")
    farm.finish(registry, "t3")
    farm.run(registry, "t1")
    found = status(settings, registry)
    (phone,) = found.phones
    assert (phone.name, phone.state, phone.attempt) == (farm.PHONE, "busy", "s: chain")
    (sweep,) = found.sweeps
    assert sweep.name == "s"
    assert (sweep.counts["waiting"], sweep.counts["running"]) == (1, 1)


def test_a_phone_whose_attempt_nobody_follows_is_not_busy(settings: Settings) -> None:
    """As after `lever down`: the controller lets go of its leases when it leaves."""
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    farm.submit(registry, "t1")
    registry.renew([farm.run(registry, "t1")], 0.0)
    (phone,) = status(settings, registry).phones
    assert (phone.state, phone.attempt) == ("ready", "left, goes on with lever up: s: chain")


def test_reasons_are_told_of_phones_that_are_not_ready(settings: Settings) -> None:
    registry = MemoryRegistry()
    registry.put_device(farm.phone("a"))
    registry.put_device(farm.phone("b"))
    registry.set_device_state("a", DeviceState.OFFLINE, "no answer")
    registry.set_device_state("b", DeviceState.READY, "released by hand")
    assert [(p.state, p.reason) for p in status(settings, registry).phones] == [("offline", "no answer"), ("ready", "")]


def test_a_service_on_another_registry_is_refused(settings: Settings, tmp_path: Path) -> None:
    state.write(settings, service(tmp_path))
    heartbeat.write_beat(settings, RUN, 0)
    assert ensure_up(settings, _quiet) is False
    elsewhere = Settings(settings.home, "postgresql://elsewhere/lever", settings.tracking_uri, settings.host)
    with pytest.raises(FarmError, match="another registry") as error:
        ensure_up(elsewhere, _quiet)
    assert "lever down" in error.value.remedy


def test_a_service_in_another_ray_is_refused(settings: Settings, tmp_path: Path) -> None:
    state.write(settings, replace(service(tmp_path), ray_address="10.0.0.5:6379"))
    heartbeat.write_beat(settings, RUN, 0)
    assert ensure_up(settings, _quiet) is False
    assert ensure_up(replace(settings, ray_address="10.0.0.5:6379"), _quiet) is False
    with pytest.raises(FarmError, match=r"runs in 10\.0\.0\.5:6379, not at 10\.0\.0\.6:6379"):
        ensure_up(replace(settings, ray_address="10.0.0.6:6379"), _quiet)


def test_an_address_where_nobody_listens_is_named_at_once(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(FarmError, match=f"no Ray head answers at {address}"):
        ensure_up(replace(settings, ray_address=address), _quiet)
    assert state.read(settings) is None


def test_farm_hosts_are_told(settings: Settings, tmp_path: Path) -> None:
    state.write(settings, service(tmp_path))
    heartbeat.write_head(settings, heartbeat.Head(RUN, 1, hosts=("one", "two")))
    assert status(settings, MemoryRegistry()).hosts == ("one", "two")


def test_a_folder_that_is_not_ours_is_never_deleted(settings: Settings, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    state.write(
        settings, state.Service(RUN, dead_process(), os.getsid(0), settings.registry_url, temp_dir=str(precious))
    )
    end_service(settings, _quiet)
    assert precious.exists()


def _quiet(_step: str) -> None:
    pass


def test_what_waits_and_the_expected_end_are_told(settings: Settings) -> None:
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    farm.submit(registry, "t1", "t2", "t3", "t4")
    assert status(settings, registry).outlook.expected == "not known: nothing like it ever ran here"
    farm.finish(registry, "t1")
    farm.run(registry, "t2")
    registry.set_waiting_reason({"t3": "no phone matches phones=any:soc:none"})
    found = status(settings, registry).outlook
    assert found.expected == "less than a minute"
    assert found.waiting == {"id-s": {"no phone matches phones=any:soc:none": 1, "for its turn": 1}}
