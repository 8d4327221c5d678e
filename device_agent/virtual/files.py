"""Where the phone's paths lie on the host.

Sync paths are mapped exactly. A shell command is text that the host's shell runs without chroot (that needs
privileges), so absolute path words that begin with one of the phone's folders are rewritten in it. Quirk: such a word
is rewritten in data too (`echo /data` prints the host's path), text on a shell's stdin is never rewritten, and every
other absolute path (`/`, `/tmp`, most of `/proc`) is the host's.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDERS = ("data", "sdcard", "storage", "system", "vendor", "sys")
OWN_FILES = ("proc/meminfo", "proc/uptime", "proc/vmstat", "proc/sys/kernel/random/boot_id")
_ALIAS = "lever-phone-"
_PLAIN = re.compile(r"/[\w./+-]*", re.ASCII)
_LONGEST_PLAIN = 80  # unix socket addresses end at 107 bytes
# A path word: at the start or after white space or shell punctuation, perhaps inside quotes.
_OURS = "|".join((*FOLDERS, *OWN_FILES))
_PATH_WORD = re.compile(rf"""(^|[\s=:;&|<>(){{}},`!\[])(["'\\]*)/({_OURS})(?=/|[^\w.+-]|$)""")


class Files:
    """The phone's `/`. `prefix` is a path of it that needs no quoting whatever the root's own name is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._alias_folder: str | None = None
        if _PLAIN.fullmatch(str(root)) and len(str(root)) <= _LONGEST_PLAIN:
            self.prefix = str(root)
        else:
            self._alias_folder = _left_alias(root) or _new_alias(root)
            self.prefix = f"{self._alias_folder}/root"

    def create(self) -> None:
        for folder in (*FOLDERS, "data/local/tmp"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    def host_path(self, path: str) -> str:
        """Path on the host of an absolute (or `/`-relative) path on the phone; `..` never leaves the root."""
        if path == self.prefix or path.startswith(self.prefix + "/"):
            path = path[len(self.prefix) :]  # a path that a rewritten command printed
        inside = os.path.normpath("/" + path).lstrip("/")
        return os.path.join(self.root, inside) if inside else str(self.root)

    def rewrite(self, command: str) -> str:
        return _PATH_WORD.sub(lambda match: f"{match[1]}{match[2]}{self.prefix}/{match[3]}", command)

    def close(self) -> None:
        if self._alias_folder:
            os.unlink(self.prefix)
            os.rmdir(self._alias_folder)


def _new_alias(root: Path) -> str:
    folder = tempfile.mkdtemp(prefix=_ALIAS)
    os.symlink(root, f"{folder}/root")
    return folder


def _left_alias(root: Path) -> str | None:
    """The alias that a killed phone of this root left behind; nobody else's folder is trusted."""
    for folder in glob.glob(f"{glob.escape(tempfile.gettempdir())}/{_ALIAS}*"):
        with suppress(OSError):
            if os.lstat(folder).st_uid == os.getuid() and os.readlink(f"{folder}/root") == str(root):
                return folder
    return None
