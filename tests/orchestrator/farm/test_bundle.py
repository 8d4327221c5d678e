from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from orchestrator.farm.bundle import host_python_bundle


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
