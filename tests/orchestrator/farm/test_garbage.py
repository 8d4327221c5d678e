"""What is taken from phones and what never is."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.entities import Device, DeviceState, Sweep
from orchestrator.errors import FarmError, PhoneUnreachable
from orchestrator.farm.garbage import DAY_S, Held, Policy, choose, collect_garbage
from orchestrator.farm.retirement import retire, wipe
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes import farm
from tests.fakes.bench import ROOT, Bench

NOW = Policy(0.0)


@pytest.fixture
def registry(bench: Bench) -> Registry:
    made = MemoryRegistry()
    made.put_device(replace(bench.device, facts={"runtime_hash": "own"}))
    return made


def lay(bench: Bench, path: str, days: float, verified: bool = True, nbytes: int = 100_000) -> Path:
    folder = bench.file(path)
    folder.mkdir(parents=True)
    (folder / "layer.0.bin").write_bytes(os.urandom(nbytes))
    then = time.time() - days * DAY_S
    if verified:
        (folder / "verified").write_text("")
        os.utime(folder / "verified", (then, then))
    os.utime(folder, (then, then))
    return folder


def desk(registry: Registry) -> Device:
    return registry.device("desk")


def test_what_is_old_and_not_needed_goes(bench: Bench, registry: Registry) -> None:
    spec = farm.trial("t1", device="elsewhere")
    registry.submit(Sweep("id", "s"), [replace(spec, job={**spec.job, "target_pack": "wanted", "draft_pack": None})])
    old, half, wanted = lay(bench, "packs/old", 20), lay(bench, "packs/half", 20, False), lay(bench, "packs/wanted", 99)
    young, own, other = lay(bench, "packs/young", 2), lay(bench, "runtime/own", 99), lay(bench, "runtime/other", 15)
    (bench.file("jobs/over.1")).mkdir(parents=True)
    policy = Policy(14 * DAY_S)
    planned = collect_garbage(desk(registry), registry, bench.connect, policy, dry_run=True)
    assert all(folder.is_dir() for folder in (old, half, wanted, young, own, other))
    found = collect_garbage(desk(registry), registry, bench.connect, policy, dry_run=False)
    assert {item.path for item in found.taken} == {"packs/old", "packs/half", "runtime/other"}
    assert [item.path for item in found.taken] == [item.path for item in planned.taken]
    assert not any(folder.is_dir() for folder in (old, half, other))
    assert all(folder.is_dir() for folder in (wanted, young, own))
    assert found.jobs == ("over.1",)
    assert found.free_bytes
    assert sum(item.nbytes for item in found.taken) > 250_000
    assert desk(registry).state is DeviceState.READY


def test_use_makes_young(bench: Bench, registry: Registry, tmp_path: Path) -> None:
    from orchestrator.farm.provisioning import provision
    from tests.fakes.shell_agent import shell_agent

    parcel = shell_agent(tmp_path / "bundle", "exit 0", b"")
    for _ in range(2):
        with bench.connect() as phone:
            provision(phone, ROOT, [parcel], lambda done, total: None)
        found = collect_garbage(desk(registry), registry, bench.connect, Policy(DAY_S), dry_run=False)
        assert found.taken == ()
        long_ago = time.time() - 99 * DAY_S
        os.utime(bench.file(f"{parcel.path}/verified"), (long_ago, long_ago))
    assert len(collect_garbage(desk(registry), registry, bench.connect, Policy(DAY_S), dry_run=False).taken) == 1


def test_a_busy_phone_and_one_that_is_away(bench: Bench, registry: Registry) -> None:
    held = registry.reserve("desk", "somebody", 60)
    with pytest.raises(FarmError, match="desk is not free"):
        collect_garbage(desk(registry), registry, bench.connect, NOW, dry_run=False)
    registry.release(held)
    bench.phone.offline(60)
    with pytest.raises(PhoneUnreachable):
        collect_garbage(desk(registry), registry, bench.connect, NOW, dry_run=False)
    assert desk(registry).state is DeviceState.READY


def test_a_phone_without_our_folder(bench: Bench, registry: Registry) -> None:
    found = collect_garbage(desk(registry), registry, bench.connect, NOW, dry_run=False)
    assert (found.taken, found.kept, found.free_bytes) == ((), (), None)


def test_a_retired_phone(bench: Bench, registry: Registry) -> None:
    registry.set_device_state("desk", DeviceState.RETIRED, "by hand")
    with pytest.raises(FarmError, match="desk is retired") as raised:
        collect_garbage(desk(registry), registry, bench.connect, NOW, dry_run=False)
    assert "lever phones retire desk --wipe" in raised.value.remedy


ITEMS = st.lists(
    st.builds(Held, st.from_regex(r"packs/[a-f]{1,2}", fullmatch=True), st.integers(1, 1000), st.floats(0, 100)),
    unique_by=lambda item: item.path,
)


@given(ITEMS, st.sets(st.from_regex(r"[a-f]{1,2}", fullmatch=True)), st.integers(0, 2000), st.integers(0, 3000))
def test_never_what_is_needed_and_never_more_than_it_takes(
    found: list[Held], needed: set[str], free: int, keep_free: int
) -> None:
    taken = choose(found, needed, free, Policy(50.0, keep_free))
    assert not any(item.hash in needed for item in taken)
    assert all(item in taken for item in found if item.age_s > 50 and item.hash not in needed)
    extra = [item for item in taken if item.age_s <= 50]
    if extra:
        assert free + sum(item.nbytes for item in taken) - extra[-1].nbytes < keep_free
    left = [item for item in found if item not in taken and item.hash not in needed]
    if left:
        assert free + sum(item.nbytes for item in taken) >= keep_free
        assert all(item.age_s >= max(other.age_s for other in left) for item in extra)


def test_wipe_leaves_nothing(bench: Bench, registry: Registry, tmp_path: Path) -> None:
    lay(bench, "packs/a", 1)
    lay(bench, "runtime/own", 1)
    bench.file("jobs/it's $(touch x)").mkdir(parents=True)
    with bench.connect() as phone:  # a job that nobody remembers runs on
        phone.shell(f"cd {ROOT}/jobs/* && (trap '' HUP; setsid sh -c 'echo $$ >pid; sleep 1000' >/dev/null 2>&1 &)", 5)
    assert wipe("desk", registry, bench.connect) == ROOT
    assert not bench.file("").exists()
    assert not list(bench.phone.root.rglob("x"))
    assert desk(registry).state is DeviceState.READY, "held only meanwhile"
    assert retire("desk", Settings(tmp_path, "", "", "here"), registry) is False
    assert desk(registry).state is DeviceState.RETIRED


def test_wiping_needs_the_phone_and_its_peace(bench: Bench, registry: Registry) -> None:
    lay(bench, "packs/a", 1)
    bench.phone.offline(60)
    with pytest.raises(PhoneUnreachable):
        wipe("desk", registry, bench.connect)
    bench.phone.tell("clear")
    reserved = registry.reserve("desk", "calibrate", 60)
    with pytest.raises(FarmError, match="desk is not free"):
        wipe("desk", registry, bench.connect)
    registry.release(reserved)
    registry.submit(Sweep("id", "s"), [farm.trial("t1", device="desk")])
    registry.start_attempt("t1", "desk", "me", 60)
    with pytest.raises(FarmError, match="busy with trial t1"):
        wipe("desk", registry, bench.connect)
    assert bench.file("packs/a").is_dir()
