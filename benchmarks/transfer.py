"""How fast files reach a phone over loopback: both of our transports against `adb push`, interleaved in one run.

`python -m benchmarks.transfer [--mb 300] [--rounds 7] [--phone adbd | virtual]`, or make bench-transfer. The phone is
Debian 13's real adbd (needs root), or a virtual phone. `adb` is the one in adbutils' wheel, with compression off and on
(its default). `provision` is what bringing a pack costs a user, and what a share is asked of: chunk files, verified on
the phone by the runtime that lies there, and marked as such. Random bytes, as packed weights are; the phone's files lie
in memory, so that no disk is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.server_process import adb_binary, private_server, stop_private_server
from orchestrator.farm.bundle import host_python_bundle
from orchestrator.farm.parcel import Parcel, ParcelFile
from orchestrator.farm.provisioning import provision
from tests.fakes.debian_adbd import start_adbd
from tests.fakes.phones import start_phone

HOME = "/data/local/tmp"
TARGET = f"{HOME}/pushed"
RESULT = Path(__file__).parent / "results" / "transfer.json"
PUSH_S = 300.0
CHUNK = 32_000_000
ASKED = {"adb_shell, provision": 0.5, "adb_server, provision": 0.8}  # share of the faster `adb push`
BASELINES = "adb push", "adb push, compressing"

Push = Callable[[], None]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.transfer", description=__doc__.partition("\n")[0])
    parser.add_argument("--mb", type=int, default=300, help="size of the file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--phone", choices=("adbd", "virtual"), default="virtual" if os.geteuid() else "adbd")
    arguments = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        seconds = measure(Path(folder), arguments.phone, arguments.mb * 1_000_000, arguments.rounds)
    rows = summarise(seconds, arguments.mb)
    RESULT.parent.mkdir(exist_ok=True)
    load = os.getloadavg()[0]
    what = {"phone": arguments.phone, "mb": arguments.mb, "load": load, "clients": rows, "seconds": seconds}
    RESULT.write_text(json.dumps(what, indent=1))
    print(f"{arguments.mb} MB to {arguments.phone} over loopback; load {load:.1f} at the end")
    print(f"{'':24} median MB/s   share of the faster `adb push` (least, most)")
    for name, row in rows.items():
        asked = f", asked {ASKED[name]}" if name in ASKED else ""
        print(f"{name:24} {row['mb_s']:11.0f}   {row['share']:.2f} ({row['least']:.2f}, {row['most']:.2f}){asked}")


def measure(folder: Path, phone: str, nbytes: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each push, by client."""
    parcels = host_python_bundle(folder), make_parcel(folder / "file", folder / "chunks", nbytes)
    seconds: dict[str, list[float]] = {}
    with (
        _phone(phone, folder / "phone") as endpoint,
        _clients(folder / "adb" / "key", endpoint, folder / "file", parcels) as (clients, cleaner),
    ):
        for number in range(rounds + 1):
            for name, push in clients.items():
                cleaner.shell(f"rm -rf {HOME}/lever/packs {TARGET}", PUSH_S)
                started = time.perf_counter()
                push()
                if number:  # the first round warms up
                    seconds.setdefault(name, []).append(time.perf_counter() - started)
    return seconds


def summarise(seconds: dict[str, list[float]], mb: int) -> dict[str, dict[str, float]]:
    """Shares are taken within a round, since the machine's speed drifts."""
    faster = min((seconds[name] for name in BASELINES), key=statistics.median)
    rows = {}
    for name, mine in seconds.items():
        shares = [theirs / ours for theirs, ours in zip(faster, mine, strict=True)]
        share = {"share": statistics.median(shares), "least": min(shares), "most": max(shares)}
        rows[name] = {"mb_s": mb / statistics.median(mine), **share}
    return rows


def make_parcel(whole: Path, folder: Path, nbytes: int) -> Parcel:
    """One file of random bytes, and the same in chunks."""
    folder.mkdir()
    data = os.urandom(nbytes)
    whole.write_bytes(data)
    files = []
    for number, start in enumerate(range(0, nbytes, CHUNK)):
        part = data[start : start + CHUNK]
        (folder / f"{number}.bin").write_bytes(part)
        files.append(ParcelFile(f"{number}.bin", len(part), hashlib.sha256(part).hexdigest()))
    return Parcel("packs", hashlib.sha256(data).hexdigest(), folder, tuple(files))


@contextmanager
def _phone(kind: str, root: Path) -> Iterator[str]:
    phone = start_adbd(root) if kind == "adbd" else start_phone(root)
    try:
        yield phone.endpoint
    finally:
        phone.stop()


@contextmanager
def _clients(
    key: Path, endpoint: str, file: Path, parcels: Sequence[Parcel]
) -> Iterator[tuple[dict[str, Push], Transport]]:
    server = private_server(key)
    adb = [adb_binary(), "-P", str(server.port), "-s", endpoint, "push"]
    try:
        with (
            open_transport(f"wireless:{endpoint}", key) as through_server,
            open_transport(f"tcp:{endpoint}", key) as straight,
        ):
            through_server.connect(10)
            straight.connect(10)
            clients = {
                BASELINES[0]: _command([*adb, "-Z", str(file), TARGET]),
                BASELINES[1]: _command([*adb, str(file), TARGET]),
                "adb_server": lambda: through_server.push(file, TARGET, PUSH_S),
                "adb_shell": lambda: straight.push(file, TARGET, PUSH_S),
                "adb_server, provision": lambda: _provision(through_server, parcels),
                "adb_shell, provision": lambda: _provision(straight, parcels),
            }
            yield clients, straight
    finally:
        stop_private_server(key)


def _command(words: list[str]) -> Push:
    def push() -> None:
        subprocess.run(words, check=True, capture_output=True, timeout=PUSH_S)

    return push


def _provision(phone: Transport, parcels: Sequence[Parcel]) -> None:
    provision(phone, f"{HOME}/lever", parcels, lambda _done, _total: None)


if __name__ == "__main__":
    main()
