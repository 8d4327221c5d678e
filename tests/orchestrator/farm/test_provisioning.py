from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, ModelError, PhoneDiskFull, PhoneUnreachable, ProvisioningFailed
from orchestrator.farm import provisioning
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.bundle import host_python_bundle
from orchestrator.farm.parcel import Parcel, ParcelFile
from orchestrator.farm.provisioning import forget_verified, free_bytes, provision
from tests.fakes.bench import ROOT, Bench
from tests.fakes.recorded_transport import RecordedTransport

CHUNK = 3_000_000
HASH = "ab" * 32


def ignore(done: int, total: int) -> None: ...


class BadCable(RecordedTransport):
    """Something else arrives than was sent, in the first so many pushes."""

    def __init__(self, inner: Transport, good_after: int = 1000) -> None:
        super().__init__(inner)
        self.good_after = good_after

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        if len(self.pushed) < self.good_after:
            self.pushed.append(remote)
            self.inner.push_bytes(bytes(local.stat().st_size), remote, timeout_s)
        else:
            super().push(local, remote, timeout_s, progress)


@pytest.fixture
def pack(tmp_path: Path) -> Parcel:
    """Four chunks of 3 MB and a small manifest."""
    folder = tmp_path / "pack"
    folder.mkdir()
    sizes = {f"layer {i}.bin": CHUNK for i in range(4)} | {"model.json": 100}
    files = []
    for number, (name, size) in enumerate(sizes.items()):
        data = bytes([number + 1]) * size
        (folder / name).write_bytes(data)
        files.append(ParcelFile(name, size, hashlib.sha256(data).hexdigest()))
    return Parcel("packs", HASH, folder, tuple(files))


@pytest.fixture
def phone(bench: Bench) -> Iterator[RecordedTransport]:
    with RecordedTransport(bench.connect()) as transport:
        yield transport


def cut_at(bench: Bench, nbytes: int) -> provisioning.Report:
    """Pulls the cable once so many bytes are on the phone."""

    def report(done: int, total: int) -> None:
        if done >= nbytes:
            bench.phone.cut()

    return report


def pushed_again(bench: Bench, pack: Parcel) -> list[str]:
    """Provision over a new connection; names of the files that were pushed."""
    with RecordedTransport(bench.connect()) as phone:
        provision(phone, ROOT, [pack], ignore)
        return [remote.rsplit("/", 1)[1] for remote in phone.pushed]


def assert_whole(bench: Bench, pack: Parcel) -> None:
    names = {file.name for file in pack.files}
    assert {path.name for path in bench.file(pack.path).iterdir()} == names | {"verified"}
    for name in names:
        assert bench.file(f"{pack.path}/{name}").read_bytes() == (pack.folder / name).read_bytes()


def test_pushes_everything_and_counts_bytes(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    seen: list[tuple[int, int]] = []
    provision(phone, ROOT, [pack], lambda done, total: seen.append((done, total)))
    assert_whole(bench, pack)
    assert seen[0] == (0, pack.nbytes)
    assert seen[-1] == (pack.nbytes, pack.nbytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert any(0 < done < CHUNK for done, _ in seen), "progress within a chunk"


def test_second_time_is_one_round_trip(phone: RecordedTransport, pack: Parcel) -> None:
    provision(phone, ROOT, [pack], ignore)
    phone.operations.clear()
    seen: list[tuple[int, int]] = []
    provision(phone, ROOT, [pack, pack], lambda done, total: seen.append((done, total)))
    assert phone.operations == ["shell"]
    assert seen == [(2 * pack.nbytes, 2 * pack.nbytes)]


def test_resumes_after_a_cut_between_chunks(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    with pytest.raises(PhoneUnreachable):
        provision(phone, ROOT, [pack], cut_at(bench, 2 * CHUNK))
    # the cut races with the chunk's end: one chunk at most is sent again
    assert pushed_again(bench, pack) in (
        ["layer 1.bin", "layer 2.bin", "layer 3.bin", "model.json"],
        ["layer 2.bin", "layer 3.bin", "model.json"],
    )
    assert_whole(bench, pack)


def test_resumes_after_a_cut_within_a_chunk(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    with pytest.raises(PhoneUnreachable):
        provision(phone, ROOT, [pack], cut_at(bench, CHUNK + CHUNK // 2))
    assert not bench.file(f"{pack.path}/verified").exists()
    assert pushed_again(bench, pack) == ["layer 1.bin", "layer 2.bin", "layer 3.bin", "model.json"]
    assert_whole(bench, pack)


def test_finds_a_corrupt_chunk_when_nobody_vouches(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    provision(phone, ROOT, [pack], ignore)
    bench.file(f"{pack.path}/layer 2.bin").write_bytes(b"x" * CHUNK)
    assert pushed_again(bench, pack) == [], "a verified pack is believed"
    forget_verified(phone, ROOT, [pack])
    assert pushed_again(bench, pack) == ["layer 2.bin"]
    assert_whole(bench, pack)


def test_finds_a_shortened_chunk_of_a_verified_pack(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    provision(phone, ROOT, [pack], ignore)
    bench.file(f"{pack.path}/layer 0.bin").write_bytes(b"x")
    assert pushed_again(bench, pack) == ["layer 0.bin"]
    assert_whole(bench, pack)


def test_a_verified_pack_counts_for_nothing_while_it_is_mended(
    bench: Bench, phone: RecordedTransport, pack: Parcel
) -> None:
    provision(phone, ROOT, [pack], ignore)
    bench.file(f"{pack.path}/layer 0.bin").unlink()
    with pytest.raises(PhoneUnreachable):
        provision(phone, ROOT, [pack], cut_at(bench, pack.nbytes))
    bench.file(f"{pack.path}/layer 0.bin").write_bytes(b"x" * CHUNK)  # all bytes there, and not what was sent
    assert pushed_again(bench, pack) == ["layer 0.bin"]
    assert_whole(bench, pack)


def test_the_agent_hashes_once_it_is_there(
    bench: Bench, phone: RecordedTransport, pack: Parcel, tmp_path: Path
) -> None:
    runtime = host_python_bundle(tmp_path)
    provision(phone, ROOT, [runtime, pack], ignore)
    assert_whole(bench, pack)
    assert [" sums " in command for command in phone.begun] == [False, True]


def test_a_broken_agent_leaves_it_to_the_shell(
    bench: Bench, phone: RecordedTransport, pack: Parcel, tmp_path: Path
) -> None:
    runtime = host_python_bundle(tmp_path)
    provision(phone, ROOT, [runtime], ignore)
    agent = bench.file(f"{runtime.path}/agent")
    agent.write_bytes(b"exit 1".ljust(agent.stat().st_size))
    provision(phone, ROOT, [runtime, pack], ignore)
    assert_whole(bench, pack)
    assert set(Counter(phone.pushed).values()) == {1}


@pytest.mark.parametrize("taken", [1, 6])  # 6: the empty name too, that ends them
def test_an_agent_that_dies_with_names_in_hand(
    bench: Bench, phone: RecordedTransport, pack: Parcel, tmp_path: Path, taken: int
) -> None:
    runtime = host_python_bundle(tmp_path)
    provision(phone, ROOT, [runtime], ignore)
    agent = bench.file(f"{runtime.path}/agent")
    dies = b"read -r n; " * taken + b"exit 1"
    agent.write_bytes(dies.ljust(agent.stat().st_size))
    provision(phone, ROOT, [runtime, pack], ignore)
    assert_whole(bench, pack)
    assert set(Counter(phone.pushed).values()) == {1}


def test_a_phone_that_hangs_up_while_it_hashes(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    """All is pushed, nothing vouched for: the next time nothing is sent again."""
    with pytest.raises(PhoneUnreachable):
        provision(phone, ROOT, [pack], cut_at(bench, pack.nbytes))
    assert not bench.file(f"{pack.path}/verified").exists()
    assert pushed_again(bench, pack) in ([], ["model.json"])
    assert_whole(bench, pack)


def test_gives_up_on_a_chunk_that_never_arrives_intact(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    cable = BadCable(phone)
    with pytest.raises(ProvisioningFailed, match=r"layer \d\.bin arrived damaged 3 times, and is intact on this host"):
        provision(cable, ROOT, [pack], ignore)
    assert max(Counter(cable.pushed).values()) == 3
    assert not bench.file(f"{pack.path}/verified").exists()


def test_a_chunk_that_arrived_damaged_is_pushed_once_more(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    cable = BadCable(phone, good_after=2)
    provision(cable, ROOT, [pack], ignore)
    assert_whole(bench, pack)
    assert sorted(Counter(cable.pushed).values()) == [1, 1, 1, 2, 2]


def test_a_file_that_is_damaged_here_is_no_fault_of_the_phone(
    bench: Bench, phone: RecordedTransport, pack: Parcel
) -> None:
    with (pack.folder / "layer 1.bin").open("r+b") as file:
        file.write(b"oops")
    with pytest.raises(ModelError, match=rf"packs/{HASH}/layer 1\.bin is damaged on this host.*sha256") as raised:
        provision(phone, ROOT, [pack], ignore)
    assert "lever models verify" in raised.value.remedy
    assert max(Counter(phone.pushed).values()) == 1
    assert not bench.file(f"{pack.path}/layer 1.bin").exists()
    assert not bench.file(f"{pack.path}/verified").exists()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda file: os.truncate(file, 5), "5 bytes, expected 3000000"),
        (lambda file: file.unlink(), "No such file"),
    ],
)
def test_a_shortened_or_lost_file_is_not_pushed(
    phone: RecordedTransport, pack: Parcel, damage: Callable[[Path], None], what: str
) -> None:
    damage(pack.folder / "layer 0.bin")
    with pytest.raises(ModelError, match=rf"layer 0\.bin is damaged on this host.*{what}"):
        provision(phone, ROOT, [pack], ignore)
    assert phone.pushed == []


def test_a_damaged_runtime_has_its_own_remedy(phone: RecordedTransport, pack: Parcel) -> None:
    (pack.folder / "layer 0.bin").unlink()
    with pytest.raises(ModelError, match="runtime/") as raised:
        provision(phone, ROOT, [replace(pack, kind="runtime")], ignore)
    assert "it is made again" in raised.value.remedy


def test_refuses_before_pushing_when_space_is_short(
    phone: RecordedTransport, pack: Parcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisioning, "RESERVE", 1 << 60)
    with pytest.raises(PhoneDiskFull, match="12 MB are to be pushed"):
        provision(phone, ROOT, [pack], ignore)
    assert phone.pushed == []


def test_names_cannot_run_commands(bench: Bench, phone: RecordedTransport, pack: Parcel) -> None:
    evil = "$(touch pwned); 'quote' `touch pwned`"
    (pack.folder / evil).write_bytes(b"data")
    file = ParcelFile(evil, 4, hashlib.sha256(b"data").hexdigest())
    parcel = replace(pack, files=(file,))
    provision(phone, ROOT, [parcel], ignore)
    assert {path.name for path in bench.file(pack.path).iterdir()} == {evil, "verified"}
    assert not list(bench.phone.root.rglob("pwned"))


def test_reads_free_space_of_wrapped_and_odd_tables() -> None:
    android = (
        "Filesystem      1K-blocks     Used Available Use% Mounted on\n/dev/block/dm-5 112487 50000 62487  45% /data"
    )
    wrapped = (
        "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/a very long name\n  112487 50000 62487  45% /da ta"
    )
    assert free_bytes(android) == free_bytes(wrapped) == 62487 * 1024
    with pytest.raises(CommandFailed, match="df said"):
        free_bytes("df: not found")
