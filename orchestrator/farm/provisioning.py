"""Bring parcels onto a phone, chunk by chunk, so that a push that was cut goes on at the first missing chunk.

A file `verified` marks a parcel of which the phone hashed every chunk; with it and the right sizes the parcel costs
nothing but its part of one listing. Without it chunks that lie there already are hashed, since nobody vouches for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from orchestrator.errors import CommandFailed, PhoneDiskFull
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.delivery import FREE_SOME, SHELLS_OWN, deliver, full_disk_named
from orchestrator.farm.parcel import Parcel, ParcelFile

LIST_S = 30.0
RESERVE = 64_000_000  # bytes that a job may write beside the packs

Report = Callable[[int, int], None]
"""Bytes that are on the phone, and bytes in all."""


@dataclass(frozen=True)
class Holding:
    """What the phone has of one parcel."""

    verified: bool = False
    sizes: dict[str, int] = field(default_factory=dict)

    def complete(self, parcel: Parcel) -> bool:
        return self.verified and not self.missing(parcel)

    def missing(self, parcel: Parcel) -> list[ParcelFile]:
        return [file for file in parcel.files if self.sizes.get(file.name) != file.nbytes]


def provision(phone: Transport, root: str, parcels: Sequence[Parcel], report: Report) -> None:
    """Everything is on the phone and verified when this returns; one round trip when it was there before.

    Raises PhoneDiskFull before anything is pushed, ProvisioningFailed, ModelError for a file that is damaged
    on this host, PhoneUnreachable (call again: it goes on)."""
    holdings, free = listing(phone, root, parcels)
    missing = [
        sum(file.nbytes for file in holding.missing(parcel)) for parcel, holding in zip(parcels, holdings, strict=True)
    ]
    _check_space(sum(missing), free, root)
    total = sum(parcel.nbytes for parcel in parcels)
    done = total - sum(missing)
    report(done, total)
    for parcel, holding, nbytes in zip(parcels, holdings, missing, strict=True):
        if not holding.complete(parcel):
            others = done - (parcel.nbytes - nbytes)
            hasher = SHELLS_OWN if parcel.kind == "runtime" else _hasher(root, parcels)
            _complete(phone, root, parcel, holding, hasher, partial(_counted, report, others, total))
            done += nbytes


def listing(phone: Transport, root: str, parcels: Sequence[Parcel]) -> tuple[list[Holding], int]:
    """What the phone has of each parcel, and its free bytes: one round trip, and the root folder exists after it. Those
    that are verified count as used now (garbage.py)."""
    shows = "; ".join(
        f"echo '>' {quote(p.path)}; "
        f"[ -f {quote(p.path)}/verified ] && touch {quote(p.path)}/verified && echo verified; "
        f"[ -d {quote(p.path)} ] && (cd {quote(p.path)} && stat -c '%s %n' * 2>/dev/null)"
        for p in parcels
    )
    output = run(phone, f"mkdir -p {quote(root)} && cd {quote(root)} && df -P -k . && {{ {shows or ':'}; :; }}", LIST_S)
    disk, *sections = output.split("\n> ")
    return [_holding(section) for section in sections], free_bytes(disk)


def free_bytes(df: str) -> int:
    """From `df -P -k`: the column before the percentage."""
    words = df.strip().splitlines()[-1].split()
    percent = next((i for i, word in enumerate(words) if word.endswith("%")), 0)
    if percent < 1:
        raise CommandFailed(f"df said {df.strip()[-200:]!r}", "The phone's shell has no df as Android has it.")
    return int(words[percent - 1]) * 1024


def forget_verified(phone: Transport, root: str, parcels: Sequence[Parcel]) -> None:
    """Somebody found a parcel corrupt: its chunks are hashed again the next time."""
    paths = " ".join(quote(f"{root}/{parcel.path}/verified") for parcel in parcels)
    run(phone, f"rm -f {paths}", LIST_S)


def run(phone: Transport, command: str, timeout_s: float) -> str:
    """Output of a command that has to succeed; raises CommandFailed, PhoneDiskFull."""
    result = phone.shell(command, timeout_s)
    if result.exit_code == 0:
        return result.stdout
    with full_disk_named():
        raise CommandFailed(
            f"the phone answered {result.exit_code} to `{command[:120]}`: {result.stdout.strip()[-300:]}"
        )


def _holding(section: str) -> Holding:
    sizes, verified = {}, False
    for line in section.splitlines()[1:]:
        size, _, name = line.partition(" ")
        if line == "verified":
            verified = True
        elif size.isdigit():
            sizes[name] = int(size)
    return Holding(verified, sizes)


def _check_space(missing: int, free: int, root: str) -> None:
    if missing and free < missing + RESERVE:
        raise PhoneDiskFull(
            f"{missing / 1e6:.0f} MB are to be pushed to {root}, and {free / 1e6:.0f} MB are free there "
            f"({RESERVE / 1e6:.0f} MB stay in reserve)",
            FREE_SOME,
        )


def _hasher(root: str, parcels: Sequence[Parcel]) -> str:
    """The agent of a runtime that is there: its Python hashes at the processor's speed on every phone."""
    runtime = next((parcel for parcel in parcels if parcel.kind == "runtime"), None)
    return f"sh {quote(f'{root}/{runtime.path}/agent')} sums" if runtime else SHELLS_OWN


def _complete(
    phone: Transport, root: str, parcel: Parcel, holding: Holding, hasher: str, report: Callable[[int], None]
) -> None:
    folder = f"{root}/{parcel.path}"
    if holding.verified:  # and yet files are missing: cut in the middle of the next push, it must not count
        forget_verified(phone, root, [parcel])
    deliver(phone, folder, parcel, holding.missing(parcel), hasher, report)
    run(phone, f"echo {parcel.hash} >{quote(folder)}/verified", LIST_S)


def _counted(report: Report, others: int, total: int, there: int) -> None:
    report(others + there, total)
