"""A root folder with nothing in it but mksh, toybox, QEMU in the kernel's place, and one folder that can be written.

Read-only, no /tmp, no /dev/shm; the folder is on ramfs, which refuses O_DIRECT. Needs root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.fakes.arm64 import EMULATOR

FOLDER = "/data/local/tmp"
MOUNT = """
set -e
mount --make-rprivate / 2>/dev/null || true
mount --bind "$1" "$1"
mount -t ramfs -o "$3" ramfs "$1/data/local/tmp"
cp -r "$2"/. "$1/data/local/tmp"
mount --bind /proc "$1/proc"
mount --bind /dev/null "$1/dev/null"
mount -o remount,bind,ro "$1"
root=$1; shift 3
exec chroot "$root" "$@"
"""
LIBRARY = re.compile(r"(/\S+) \(0x")


class EmptyRoot:
    def __init__(self, root: Path, content: Path) -> None:
        """`content` is copied into FOLDER for each command, and gone after it."""
        self._root, self._content = root, content
        for folder in ("bin", "proc", "dev", FOLDER.lstrip("/")):
            (root / folder).mkdir(parents=True)
        (root / "dev" / "null").touch()
        for program in ("mksh", "toybox"):
            _copy_program(root, program)
        (root / "bin" / "sh").symlink_to("mksh")
        for tool in subprocess.run(["toybox"], capture_output=True, text=True, check=True).stdout.split():
            if not (root / "bin" / tool).exists():
                (root / "bin" / tool).symlink_to("toybox")
        shutil.copy(str(shutil.which(EMULATOR)), root / "qemu")

    def run(self, command: str, mount: str = "exec", **environment: str) -> tuple[int, str]:
        """By the shell, in FOLDER, with few open files; exit code and standard output."""
        env = {"PATH": "/bin", "LEVER_EMULATOR": "/qemu -cpu max,pauth-impdef=on", **environment}
        inner = ["/bin/sh", "-c", f"cd {FOLDER} && ulimit -n 64 && {command}"]
        outer = ["/bin/sh", "-c", MOUNT, "mount", str(self._root), str(self._content), mount]
        words = [str(shutil.which("unshare")), "--mount", "env", f"PATH={os.environ['PATH']}", *outer, *inner]
        words[-len(inner) :] = ["/bin/env", "-i", *(f"{k}={v}" for k, v in env.items()), *inner]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "mount:" not in done.stderr, done.stderr
        return done.returncode, done.stdout.strip()


def _copy_program(root: Path, name: str) -> None:
    program = str(shutil.which(name))
    shutil.copy(program, root / "bin" / name)
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for library in LIBRARY.findall(needed):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
