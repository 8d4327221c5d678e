"""Bring a parcel's files into their folder on a phone and let the phone verify them.

The phone hashes each file while the next one is being pushed. Nothing vouches for a file that lies there unverified, so
a push that was cut goes on with hashing what came: only the file that it was cut in is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from orchestrator.errors import CommandFailed, PhoneDiskFull, ProvisioningFailed
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.parcel import Parcel, ParcelFile, check_content, check_size

COMMAND_S = 30.0
SLOWEST_PUSH = 1_000_000  # bytes/s: slower than that is a broken link
SLOWEST_HASH = 20_000_000  # bytes/s
PUSHES = 3  # of one file that arrives damaged
NO_ROOM = ("No space left", "Disk quota exceeded", "File too large")  # the storage, a quota or a limit takes no more
FREE_SOME = "Free some space on the phone, e.g. of packs that nobody needs: lever phones gc"

SHELLS_OWN = 'while IFS= read -r name && [ -n "$name" ]; do sha256sum "$name"; done'
"""Hashes the files that it reads the names of, up to an empty one, in any phone's shell. Some 1 GB/s on Android, and
a tenth of that where toybox was built without a crypto library."""

Report = Callable[[int], None]
"""Bytes of the parcel that are on the phone."""


def deliver(
    phone: Transport, folder: str, parcel: Parcel, missing: Sequence[ParcelFile], hasher: str, report: Report
) -> None:
    """All files are there and verified when this returns. `hasher`: a command that does what SHELLS_OWN does, which
    takes its place when it does not run. Raises PhoneDiskFull, ProvisioningFailed, ModelError for a file that is
    damaged on this host, PhoneUnreachable (call again: it goes on)."""
    _Delivery(phone, folder, parcel, hasher, report).bring(missing)


@contextmanager
def full_disk_named() -> Iterator[None]:
    """Raises PhoneDiskFull for what the phone refused for want of room."""
    try:
        yield
    except CommandFailed as error:
        if any(words in error.message for words in NO_ROOM):
            raise PhoneDiskFull(f"the phone's storage is full: {error.message}", FREE_SOME) from error
        raise


class _Delivery:
    def __init__(self, phone: Transport, folder: str, parcel: Parcel, hasher: str, report: Report) -> None:
        self._phone, self._folder, self._parcel, self._hasher, self._report = phone, folder, parcel, hasher, report
        self._there = 0  # bytes
        self._pushes = Counter[ParcelFile]()

    def bring(self, missing: Sequence[ParcelFile]) -> None:
        suspects = [file for file in self._parcel.files if file not in missing]
        self._there = sum(file.nbytes for file in suspects)
        damaged = self._round(suspects, missing)
        while damaged:
            for file in damaged:
                self._take_back(file)
            damaged = self._round([], damaged)

    def _round(self, suspects: Sequence[ParcelFile], missing: Sequence[ParcelFile]) -> list[ParcelFile]:
        """Push what is missing; of that and the suspects, what the phone does not have as it should be."""
        files = [*suspects, *missing]
        sums = self._hashed(self._hasher, suspects, missing)
        unread = [file for file in files if file.name not in sums]
        if unread:  # they are not there, or the hasher failed with their names in hand
            sums |= self._hashed(SHELLS_OWN, unread, [])
        return [file for file in files if sums.get(file.name) != file.sha256]

    def _hashed(self, hasher: str, there: Sequence[ParcelFile], missing: Sequence[ParcelFile]) -> dict[str, str]:
        """sha256 by name, of what is there and of what is pushed meanwhile."""
        with closing(_Hashing(self._phone, self._folder, hasher)) as hashing:
            hashing.add(there)
            for file in missing:
                self._push(file)
                hashing.add([file])
            return hashing.sums()

    def _push(self, file: ParcelFile) -> None:
        check_size(self._parcel, file)
        self._pushes[file] += 1
        with full_disk_named():
            self._phone.push(
                self._parcel.folder / file.name,
                f"{self._folder}/{file.name}",
                COMMAND_S + file.nbytes / SLOWEST_PUSH,
                lambda sent: self._report(self._there + min(sent, file.nbytes)),
            )
        self._there += file.nbytes
        self._report(self._there)

    def _take_back(self, file: ParcelFile) -> None:
        """Raises when pushing it again makes no sense."""
        self._there -= file.nbytes
        self._phone.shell(f"rm -f {quote(f'{self._folder}/{file.name}')}", COMMAND_S)
        if self._pushes[file]:
            check_content(self._parcel, file)  # else the phone is blamed for what it was sent
        if self._pushes[file] == PUSHES:
            raise ProvisioningFailed(
                f"{self._parcel.path}/{file.name} arrived damaged {PUSHES} times, and is intact on this host",
                "Try another cable or port; the phone's storage may be failing.",
            )


class _Hashing:
    """A command on the phone that hashes files as they are added."""

    def __init__(self, phone: Transport, folder: str, hasher: str) -> None:
        self._nbytes = 0
        command = f"mkdir -p {quote(folder)} && cd {quote(folder)} && {{ {hasher} || {SHELLS_OWN}; }}"
        self._begun = phone.begin(command, COMMAND_S)
        self.close = self._begun.close

    def add(self, files: Iterable[ParcelFile]) -> None:
        for file in files:
            self._begun.write(f"{file.name}\n".encode(), COMMAND_S)
            self._nbytes += file.nbytes

    def sums(self) -> dict[str, str]:
        """Waits for the hashes; by name, of the files that could be read."""
        self._begun.write(b"\n\n", COMMAND_S)  # the second for the shell, if the hasher failed after the first
        result = self._begun.result(COMMAND_S + self._nbytes / SLOWEST_HASH)
        return {line[64:].strip().removeprefix("*"): line[:64] for line in result.stdout.splitlines()}
