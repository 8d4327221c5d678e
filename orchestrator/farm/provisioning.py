"""Bring parcels onto a phone, chunk by chunk, so that a push that was cut goes on at the first missing chunk.

A chunk is pushed beside its place and moved there after the phone's own sha256 agreed. A file `verified` marks a parcel
that was complete; with it and the right sizes the parcel costs nothing but its part of one listing. Without it chunks
that lie there already are hashed once more, since nobody vouches for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from orchestrator.errors import CommandFailed, PhoneDiskFull, ProvisioningFailed
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.parcel import Parcel, ParcelFile, check_content, check_size

LIST_S = 30.0
SLOWEST_PUSH = 1_000_000  # bytes/s: slower than that is a broken link
SLOWEST_HASH = 20_000_000  # bytes/s
RESERVE = 64_000_000  # bytes that a job may write beside the packs
PUSHES = 3  # of one chunk that arrives damaged
NO_ROOM = ("No space left", "Disk quota exceeded", "File too large")  # the storage, a quota or a limit takes no more
FREE_SOME = "Free some space on the phone, e.g. of packs that nobody needs: lever phones gc"

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
    wanted = [
        (parcel, holding) for parcel, holding in zip(parcels, holdings, strict=True) if not holding.complete(parcel)
    ]
    missing = sum(file.nbytes for parcel, holding in wanted for file in holding.missing(parcel))
    _check_space(missing, free, root)
    total = sum(parcel.nbytes for parcel in parcels)
    done = total - missing
    report(done, total)
    for parcel, holding in wanted:
        done = _complete(phone, f"{root}/{parcel.path}", parcel, holding, done, lambda sent: report(sent, total))


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


@contextmanager
def full_disk_named() -> Iterator[None]:
    """Raises PhoneDiskFull for what the phone refused for want of room."""
    try:
        yield
    except CommandFailed as error:
        if any(words in error.message for words in NO_ROOM):
            raise PhoneDiskFull(f"the phone's storage is full: {error.message}", FREE_SOME) from error
        raise


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


def _complete(
    phone: Transport, folder: str, parcel: Parcel, holding: Holding, done: int, report: Callable[[int], None]
) -> int:
    missing = set(holding.missing(parcel))
    suspects = [file for file in parcel.files if file not in missing]
    damaged = [] if not suspects else _damaged(phone, folder, suspects)
    done -= sum(file.nbytes for file in damaged)
    for file in parcel.files:
        if file in missing or file in damaged:
            _push(phone, parcel, file, folder, done, report)
            done += file.nbytes
            report(done)
    run(phone, f"cd {quote(folder)} && rm -f ./*.part && echo {parcel.hash} >verified", LIST_S)
    return done


def _damaged(phone: Transport, folder: str, files: Sequence[ParcelFile]) -> list[ParcelFile]:
    names = " ".join(quote(file.name) for file in files)
    timeout_s = LIST_S + sum(file.nbytes for file in files) / SLOWEST_HASH
    output = run(phone, f"cd {quote(folder)} && sha256sum {names}", timeout_s)
    sums = {line[64:].strip().removeprefix("*"): line[:64] for line in output.splitlines()}
    return [file for file in files if sums.get(file.name) != file.sha256]


def _push(
    phone: Transport, parcel: Parcel, file: ParcelFile, folder: str, done: int, report: Callable[[int], None]
) -> None:
    part = f"{file.name}.part"
    check = (
        f"cd {quote(folder)} && case $(sha256sum {quote(part)}) in {file.sha256}*) "
        f"mv -f {quote(part)} {quote(file.name)};; *) rm -f {quote(part)}; exit 3;; esac"
    )
    check_size(parcel, file)
    for _ in range(PUSHES):
        with full_disk_named():
            phone.push(
                parcel.folder / file.name,
                f"{folder}/{part}",
                LIST_S + file.nbytes / SLOWEST_PUSH,
                lambda sent: report(done + min(sent, file.nbytes)),
            )
        if phone.shell(check, LIST_S + file.nbytes / SLOWEST_HASH).exit_code == 0:
            return
        check_content(parcel, file)  # else the phone is blamed for what it was sent
    raise ProvisioningFailed(
        f"{parcel.path}/{file.name} arrived damaged {PUSHES} times, and is intact on this host",
        "Try another cable or port; the phone's storage may be failing.",
    )
