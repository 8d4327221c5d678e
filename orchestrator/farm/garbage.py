"""Collect garbage on a phone: packs and runtimes that nobody needs, by age and for space, and jobs that are over.

A parcel's age counts from its last use: provisioning touches its `verified` file. What a trial that waits or runs needs
is never taken, on any phone; neither is the phone's own runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import CommandFailed, FarmError
from orchestrator.farm import job_folder, quiet
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.connecting import Connect
from orchestrator.farm.holding import undisturbed
from orchestrator.farm.provisioning import free_bytes, run
from orchestrator.registry.contract import Registry

LIST_S, REMOVE_S = 60.0, 120.0
DAY_S = 86_400.0
LIST = """
cd ROOT 2>/dev/null || { echo none; exit 0; }
echo "now $(date +%s)"
for d in packs/* runtime/*; do [ -d "$d" ] || continue
f="$d/verified"; [ -f "$f" ] || f="$d"
echo "held $(stat -c %Y "$f") $(du -sk "$d" | cut -f1) $d"; done
df -P -k .
"""


@dataclass(frozen=True)
class Held:
    path: str  # packs/HASH or runtime/HASH, under our folder
    nbytes: int
    age_s: float  # since it was last used, by the phone's clock

    @property
    def hash(self) -> str:
        return self.path.partition("/")[2]


@dataclass(frozen=True)
class Collected:
    taken: tuple[Held, ...]  # removed, or with a dry run: what would be
    kept: tuple[Held, ...]
    jobs: tuple[str, ...]  # job folders removed
    free_bytes: int | None  # on the phone, before; None: there is no folder of ours


@dataclass(frozen=True)
class Policy:
    max_age_s: float  # what was not used for longer goes
    keep_free_bytes: float = 0.0  # and as many more, the longest unused first, until so much is free


def collect_garbage(device: Device, registry: Registry, connect: Connect, policy: Policy, dry_run: bool) -> Collected:
    """Holds the phone meanwhile. Raises FarmError when it is not free or retired, PhoneError."""
    if device.state is DeviceState.RETIRED:
        raise FarmError(f"phone {device.name} is retired", f"To empty it: lever phones retire {device.name} --wipe")
    with undisturbed(device, registry, "gc"):
        return _collect(device, registry, connect, policy, dry_run)


def choose(found: Sequence[Held], needed: Collection[str], free: int, policy: Policy) -> list[Held]:
    """What goes. Pure. `needed`: hashes."""
    loose = sorted((item for item in found if item.hash not in needed), key=lambda item: -item.age_s)
    chosen = [item for item in loose if item.age_s > policy.max_age_s]
    free += sum(item.nbytes for item in chosen)
    for item in loose[len(chosen) :]:
        if free >= policy.keep_free_bytes:
            break
        chosen.append(item)
        free += item.nbytes
    return chosen


def _collect(device: Device, registry: Registry, connect: Connect, policy: Policy, dry_run: bool) -> Collected:
    with connect(device) as phone:
        found, free = _listed(phone, device.root)
        needed = registry.wanted_packs() | {str(device.facts.get("runtime_hash", ""))}
        taken = choose(found, needed, free or 0, policy)
        jobs: list[str] = []
        if not dry_run:
            jobs = job_folder.sweep(phone, device.root, keep="")
            quiet.put_back(phone, device.root, keep="")
            for item in taken:
                run(phone, f"rm -rf {quote(f'{device.root}/{item.path}')}", REMOVE_S)
        return Collected(tuple(taken), tuple(item for item in found if item not in taken), tuple(jobs), free)


def _listed(phone: Transport, root: str) -> tuple[list[Held], int | None]:
    """What lies there, and the phone's free bytes; nothing and None when our folder is not there."""
    output = run(phone, LIST.replace("ROOT", quote(root)), LIST_S)
    if output.strip() == "none":
        return [], None
    lines = output.splitlines()
    try:
        now = float(next(line.split()[1] for line in lines if line.startswith("now ")))
        words = [line.split(" ", 3) for line in lines if line.startswith("held ")]
        found = [Held(path, int(kib) * 1024, max(0.0, now - float(used))) for _, used, kib, path in words]
    except (StopIteration, ValueError, IndexError) as error:
        raise CommandFailed(f"the phone listed its packs as {output[-200:]!r}", "Restart the phone.") from error
    return found, free_bytes("\n".join(line for line in lines if not line.startswith(("now ", "held "))))
