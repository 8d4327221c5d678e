"""A pack's push is cut at any byte of the wire, and goes on."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import PhoneUnreachable
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.parcel import Parcel, ParcelFile
from orchestrator.farm.provisioning import provision
from tests.fakes.adb_links import BACKENDS, AdbLink, adb_link
from tests.fakes.cutting_relay import CuttingRelay, cutting_relay
from tests.fakes.phones import PhoneFactory
from tests.fakes.recorded_transport import RecordedTransport

ROOT = "/data/local/tmp/lever"
CHUNK, CHUNKS = 300_000, 6
OVERHEAD = 20_000  # bytes on the wire of one attempt that are no chunk's: greetings, commands
CABLES = [
    pytest.param(("virtual", "adb_shell"), id="virtual-adb_shell"),
    pytest.param(("virtual", "adb_server"), id="virtual-adb_server", marks=pytest.mark.slow),
    pytest.param(("adbd", "adb_shell"), id="adbd-adb_shell", marks=pytest.mark.slow),
    pytest.param(("adbd", "adb_server"), id="adbd-adb_server", marks=pytest.mark.slow),
]


def ignore(_done: int, _total: int) -> None: ...


def make_pack(folder: Path) -> Parcel:
    folder.mkdir()
    files = []
    for name in [*(f"layer{number}.bin" for number in range(CHUNKS)), "model.json"]:
        data = os.urandom(CHUNK if name != "model.json" else 100)
        (folder / name).write_bytes(data)
        files.append(ParcelFile(name, len(data), hashlib.sha256(data).hexdigest()))
    return Parcel("packs", "ab" * 32, folder, tuple(files))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Parcel:
    return make_pack(tmp_path_factory.mktemp("pack") / "pack")


@pytest.fixture(scope="module", params=CABLES)
def cable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cable]:
    folder = tmp_path_factory.mktemp("link")
    with adb_link(request.param, folder) as link, cutting_relay(link.phone.endpoint) as relay:
        yield Cable(link, relay, f"{BACKENDS[request.param[1]]}:{relay.endpoint}", folder / "adbkey")


class Cable:
    """To a phone through a relay that cuts."""

    def __init__(self, link: AdbLink, relay: CuttingRelay, address: str, key: Path) -> None:
        self.phone, self.relay, self._address, self._key = link.phone, relay, address, key

    def push(self, pack: Parcel) -> tuple[list[str], bool]:
        """One attempt: files of which a push began, and whether it came to its end."""
        with RecordedTransport(open_transport(self._address, self._key)) as phone:
            try:
                phone.connect(10)
                provision(phone, ROOT, [pack], ignore)
            except PhoneUnreachable:
                return phone.pushed, False
            return phone.pushed, True


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, CHUNK * CHUNKS + OVERHEAD), min_size=1, max_size=5))
def test_cut_at_any_byte_goes_on_and_sends_one_chunk_again_at_most(cable: Cable, pack: Parcel, cuts: list[int]) -> None:
    shutil.rmtree(cable.phone.path(ROOT), ignore_errors=True)
    before, pushed = cable.relay.relayed, list[str]()
    for cut in cuts:
        cable.relay.cut_after = cut
        names, _ = cable.push(pack)
        assert len(set(names) & set(pushed)) <= 1, "only the chunk that was cut is sent again"
        pushed += names
    cable.relay.cut_after = None
    names, ended = cable.push(pack)
    assert ended
    assert len(set(names) & set(pushed)) <= 1
    for file in pack.files:
        assert (
            cable.phone.path(f"{ROOT}/{pack.path}/{file.name}").read_bytes() == (pack.folder / file.name).read_bytes()
        )
    wire = cable.relay.relayed - before
    assert wire <= pack.nbytes + len(cuts) * CHUNK + (len(cuts) + 1) * OVERHEAD


def test_several_phones_are_provisioned_at_once(virtual_phone: PhoneFactory, pack: Parcel, tmp_path: Path) -> None:
    phones = [virtual_phone(f"phone{number}") for number in range(3)]
    together = threading.Barrier(len(phones), timeout=20)  # passed only while all are in the middle

    def bring(endpoint: str) -> None:
        def report(done: int, _total: int) -> None:
            if done and not met:
                met.append(together.wait())

        met: list[int] = []
        with open_transport(f"tcp:{endpoint}", tmp_path / "key") as phone:
            phone.connect(10)
            provision(phone, ROOT, [pack], report)

    with ThreadPoolExecutor(len(phones)) as pool:
        list(pool.map(bring, [phone.endpoint for phone in phones]))
    for phone in phones:
        assert phone.path(f"{ROOT}/{pack.path}/verified").exists()
