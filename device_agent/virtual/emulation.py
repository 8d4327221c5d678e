"""A phone of another processor: QEMU's user-mode emulation runs its programs, one system call after another."""

from __future__ import annotations

import shutil

from device_agent.virtual.profile import ARM64

PROGRAMS = ("qemu-aarch64-static", "qemu-aarch64")


def emulation(arch: str) -> dict[str, str]:
    """What the phone's shell has to know to start its programs: an environment variable, as bundles read it. Raises
    ValueError when no emulator is here."""
    if arch != ARM64:
        return {}
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise ValueError(
            f"profile with arch {arch}: no {PROGRAMS[0]} on the PATH; run: apt-get install qemu-user-static"
        )
    return {"LEVER_EMULATOR": f"{found} -cpu max,pauth-impdef=on"}
