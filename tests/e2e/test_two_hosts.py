"""Two farm hosts in a Ray that runs already: two nodes of this machine, each with a folder, models and a phone of its
own. `lever up --address` works in it and leaves it as it was."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.entities import TrialState
from orchestrator.service.down import down
from tests.fakes.live_farm import SWEEP, LiveFarm, until
from tests.fakes.postgres import _free_port

pytestmark = pytest.mark.slow
PHONES = {"one": "oneplus12", "two": "pixel8"}
RAY = (Path(sys.executable).with_name("ray"), "start", "--block", "--object-store-memory=83886080", "--num-cpus=1")


class Hosts:
    def __init__(self, folder: Path) -> None:
        self.port, self.token = _free_port(), secrets.token_hex(32)
        self.farms = {host: self._farm(folder, host) for host in PHONES}
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def _farm(self, folder: Path, host: str) -> LiveFarm:
        (folder / host).mkdir()
        farm = LiveFarm(folder / host)
        registry, tracking = (f"sqlite:///{folder / name}" for name in ("registry.db", "mlflow.db"))
        farm.settings = replace(farm.settings, registry_url=registry, tracking_uri=tracking, host=host)
        farm.environment |= {
            "LEVER_REGISTRY_URL": registry,
            "LEVER_TRACKING_URI": tracking,
            "LEVER_HOST": host,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_worker_niceness": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        return farm

    def join(self, host: str, *how: str) -> None:
        """`ray start` as the host's user would run it."""
        self.nodes[host] = subprocess.Popen(
            [*RAY, *how, f"--labels=lever-host={host}"],
            env=self.farms[host].environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def leave(self, host: str) -> None:
        self.nodes[host].terminate()
        self.nodes[host].wait(60)

    def seen(self) -> list[str]:
        return list(json.loads(self.farms["one"].lever("status", "--json"))["hosts"])


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lever-hosts-", dir="/tmp"))
        ray_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="lever-ray-", dir="/tmp"))
        made = Hosts(Path(folder))
        for host, phone in PHONES.items():
            made.farms[host].prepare(phone)
            stack.callback(down, made.farms[host].settings, print)
        made.join("one", "--head", f"--port={made.port}", "--include-dashboard=false", f"--temp-dir={ray_dir}")
        stack.callback(made.leave, "one")
        until(lambda: _listens(made.port), "Ray's head listens", 120.0)
        made.join("two", f"--address=127.0.0.1:{made.port}")
        stack.callback(made.leave, "two")
        made.farms["one"].lever("up", "--address", f"127.0.0.1:{made.port}", timeout_s=240.0)
        yield made


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1.0).close()
        return True
    return False


def test_phones_of_both_hosts_run_a_sweep(hosts: Hosts) -> None:
    until(lambda: hosts.seen() == ["one", "two"], "both have joined", 120.0)
    said = hosts.farms["one"].lever(*SWEEP, "workload.limit=1", "sweep=both", timeout_s=300.0)
    assert "4 done" in said
    with hosts.farms["one"].registry() as registry:
        trials = registry.trials("both")
        assert {t.device for t in trials} == set(PHONES.values())
        assert [t.state for t in trials] == [TrialState.DONE] * 4
        assert {registry.device(phone).host for phone in PHONES.values()} == set(PHONES)
    assert list((hosts.farms["two"].home / "phones" / "pixel8").rglob("result.json"))


def test_a_host_that_leaves_and_comes_back_is_told(hosts: Hosts) -> None:
    hosts.leave("two")
    until(lambda: hosts.seen() == ["one"], "it has left", 120.0)
    hosts.join("two", f"--address=127.0.0.1:{hosts.port}")
    until(lambda: hosts.seen() == ["one", "two"], "it is back", 120.0)
    one = hosts.farms["one"]
    said = one.lever(*SWEEP[:3], "engine=prompt_lookup", "workload=demo", "phones=pixel8", timeout_s=300.0)
    assert "1 done" in said


def test_down_leaves_ray_as_it_was(hosts: Hosts) -> None:
    hosts.farms["one"].lever("down", timeout_s=240.0)
    one = hosts.farms["one"]
    words = [sys.executable, "-c", LEFT, f"127.0.0.1:{hosts.port}"]
    done = subprocess.run(words, env=one.environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["2 []"], done.stderr


LEFT = """
import ray, sys
ray.init(sys.argv[1], log_to_driver=False)
print(sum(node["Alive"] for node in ray.nodes()), ray.util.list_named_actors(all_namespaces=True))
"""
