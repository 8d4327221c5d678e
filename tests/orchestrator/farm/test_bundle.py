from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from pathlib import Path

from orchestrator.farm.bundle import arm64_bundle, host_python_bundle
from orchestrator.farm.parcel import check_content
from tests.fakes.stub_bundle import stub_base


def test_same_sources_same_hash(tmp_path: Path) -> None:
    first, second = host_python_bundle(tmp_path / "a"), host_python_bundle(tmp_path / "b")
    assert first.hash == second.hash
    assert first.path == f"runtime/{first.hash}"
    assert host_python_bundle(tmp_path / "a").folder == first.folder, "built once"


def test_hash_is_the_manifest_s_and_the_manifest_names_all_files(tmp_path: Path) -> None:
    bundle = host_python_bundle(tmp_path)
    manifest = (bundle.folder / "bundle.json").read_bytes()
    assert bundle.hash == hashlib.sha256(manifest).hexdigest()
    assert json.loads(manifest)["runtime"] == "host-python"
    assert {file.name for file in bundle.files} == {path.name for path in bundle.folder.iterdir()}
    for file in bundle.files:
        data = (bundle.folder / file.name).read_bytes()
        assert (file.nbytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert bundle.files[-1].name == "bundle.json", "the manifest is pushed last"


def test_carries_the_agent_and_not_the_phone(tmp_path: Path) -> None:
    bundle = host_python_bundle(tmp_path)
    names = zipfile.ZipFile(bundle.folder / "device_agent.zip").namelist()
    assert "device_agent/protocol/jobs.py" in names
    assert "device_agent/engine/__init__.py" in names
    assert not [name for name in names if "/virtual/" in name or "__pycache__" in name]


def test_arm64_is_what_was_built_and_today_s_agent(tmp_path: Path) -> None:
    assert arm64_bundle(tmp_path) is None
    archive = stub_base(tmp_path)
    bundle = arm64_bundle(tmp_path)
    assert bundle is not None
    assert {file.name for file in bundle.files} == {"base.tar.gz", "agent.tar.gz", "agent", "bundle.json"}
    manifest = json.loads((bundle.folder / "bundle.json").read_bytes())
    assert (manifest["runtime"], manifest["abi"], manifest["made_of"]) == ("bundle", "arm64-v8a", {"libc6": "2.36"})
    assert (bundle.folder / "base.tar.gz").samefile(archive), "large, and here once"
    for file in bundle.files:
        check_content(bundle, file)
    with tarfile.open(bundle.folder / "agent.tar.gz") as agent:
        assert "site/device_agent/protocol/jobs.py" in agent.getnames()


def test_arm64_another_base_is_another_bundle(tmp_path: Path) -> None:
    stub_base(tmp_path)
    first, again = arm64_bundle(tmp_path), arm64_bundle(tmp_path)
    stub_base(tmp_path, extra=b"newer")
    second = arm64_bundle(tmp_path)
    assert first is not None
    assert second is not None
    assert first == again
    assert first.hash != second.hash
    check_content(first, first.files[0])  # a push of it may be under way


def test_arm64_archive_that_is_not_what_was_built_counts_as_none(tmp_path: Path) -> None:
    archive = stub_base(tmp_path)
    archive.write_bytes(archive.read_bytes()[:-1])
    assert arm64_bundle(tmp_path) is None
