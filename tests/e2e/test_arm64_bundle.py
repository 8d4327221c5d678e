"""The arm64 bundle as built, under QEMU: in an empty root, and on a virtual phone from registration to a trial."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from device_agent.protocol import JobResult, from_json, to_json
from orchestrator.bundles.recipe import DEBIAN, VARIANTS
from orchestrator.farm import virtual_phones
from orchestrator.farm.bundle import arm64_bundle
from orchestrator.farm.local_agent import run_here
from orchestrator.models.tiny_model import write_tiny_pack
from orchestrator.settings import Settings
from tests.fakes.arm64 import give_base
from tests.fakes.arm64_jobs import choices_agree, streamed_job
from tests.fakes.empty_root import FOLDER, EmptyRoot
from tests.fakes.live_farm import LiveFarm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
PHONE = "midrange-arm64"


@pytest.fixture(scope="module")
def parcel_folder(arm64_home: Path) -> Path:
    parcel = arm64_bundle(arm64_home)
    assert parcel is not None
    return parcel.folder


@pytest.fixture
def empty_root(parcel_folder: Path, tmp_path: Path) -> EmptyRoot:
    if os.getuid() != 0:
        pytest.skip("needs root to mount")
    content = tmp_path / "content"
    shutil.copytree(parcel_folder, content / "runtime")
    return EmptyRoot(tmp_path / "root", content)


def test_small_enough_with_all_kernels_and_licences(parcel_folder: Path) -> None:
    assert sum(file.stat().st_size for file in parcel_folder.iterdir()) < 40_000_000
    with tarfile.open(parcel_folder / "base.tar.gz") as archive:
        names = set(archive.getnames())
    assert {f"ggml/{variant}/ggml/lib/libggml-cpu.so" for variant in VARIANTS} <= names
    assert {f"licences/{package}" for package in (*DEBIAN, "ggml", "ggml-python")} <= names
    assert [name for name in names if name.startswith("site/numpy-") and "LICENSE" in name]


def test_needs_nothing_but_a_kernel(empty_root: EmptyRoot, tmp_path: Path) -> None:
    packs = tmp_path / "content" / "packs"
    job = streamed_job(write_tiny_pack(packs), "../../packs")
    folder = tmp_path / "content" / "jobs" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(to_json(job)))
    command = "sh runtime/agent probe . && sh runtime/agent run jobs/one >log 2>&1; cat log jobs/one/result.json"
    code, said = empty_root.run(command)
    assert code == 0, said
    facts, *_, result = said.splitlines()
    found = json.loads(facts)
    assert (found["machine"], found["ggml_variant"], found["o_direct"]) == ("aarch64", "i8mm", False)
    there = from_json(JobResult, json.loads(result))
    assert there.error is None
    assert there.tags["io_mode"] == "buffered"
    here = run_here(Settings(tmp_path / "home", "", "", "here"), replace(job, packs_dir=str(packs)), lambda _: None)
    choices_agree(there, here)


def test_noexec(empty_root: EmptyRoot) -> None:
    _, said = empty_root.run("sh runtime/agent probe .; ls runtime", mount="noexec")
    refused, *left = said.splitlines()
    assert f"{FOLDER}/runtime is mounted noexec" in refused
    assert left == ["agent", "agent.tar.gz", "base.tar.gz", "bundle.json"]


@pytest.mark.parametrize(("cpu", "variant"), [("cortex-a53", "armv8"), ("cortex-a76", "dotprod")])
def test_kernels_follow_the_processor(cpu: str, variant: str, empty_root: EmptyRoot) -> None:
    code, said = empty_root.run("sh runtime/agent probe .", LEVER_EMULATOR=f"/qemu -cpu {cpu}")
    assert (code, json.loads(said.splitlines()[-1])["ggml_variant"]) == (0, variant)


@pytest.fixture(scope="module")
def farm(arm64_home: Path) -> Iterator[LiveFarm]:
    with tempfile.TemporaryDirectory(prefix="lever-arm64-") as home:
        farm = LiveFarm(Path(home))
        give_base(arm64_home, farm.home)
        target, draft = farm.write_pair()
        farm.lever("models", "add", "tiny", "--target", str(target), "--draft", str(draft))
        yield farm
        for name in virtual_phones.names(farm.settings):
            virtual_phones.stop(farm.settings, name)


def test_from_registration_to_a_trial(farm: LiveFarm) -> None:
    said = farm.lever("phones", "register", f"virtual:{PHONE}", timeout_s=900)
    assert "for arm64-v8a, emulated" in said
    assert "for i8mm: " in said
    assert " logits of a tiny model differ from this host's by " in said
    sweep = ("sweep", "-m", "pair=tiny", "engine=autoregressive,chain", "workload=demo", "workload.max_new_tokens=4")
    farm.lever(*sweep, "sweep=arm64", "runtime=inline", timeout_s=1200)
    trials = json.loads(farm.lever("results", "arm64", "--json"))["trials"]
    assert len(trials) == 2
    for trial in trials:
        assert trial["exactness"].startswith(("exact", "tie")), trial
        assert "instructions" in trial["simulated"], "its times mean nothing, and it says so"
