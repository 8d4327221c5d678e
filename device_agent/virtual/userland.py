"""The phone's shell and tools: Android's own (mksh and toybox, as Debian packages them), or this host's.

With Android's, nothing of the host is on the PATH: a command or a flag that only GNU has fails here as on a phone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ANDROID, HOST = "mksh+toybox", "host"

# What toybox serves on Android 14 (AOSP, external/toybox/Android.bp), without what could harm the host below.
TOOLS = """
    [ base64 basename cal cat chattr chgrp chmod chown cksum clear cmp comm cp cpio cut date dd devmem df diff dirname
    dos2unix du echo egrep env expand expr fallocate false fgrep file find flock fmt free fsync getconf getopt grep
    groups gunzip gzip head hostname iconv id ifconfig install ionice iorenice kill killall ln log logname ls lsattr
    lsof md5sum microcom mkdir mkfifo mknod mktemp more mountpoint mv nc netcat netstat nice nl nohup nproc od paste
    patch pgrep pidof ping pkill pmap printenv printf prlimit ps pwd pwdx readelf readlink realpath renice rev rm rmdir
    sed seq setsid sha1sum sha224sum sha256sum sha384sum sha512sum sleep sort split stat strings stty sync tac tail tar
    taskset tee test time timeout top touch tr true truncate tty ulimit uname uniq unix2dos unlink usleep uudecode
    uuencode uuidgen vi vmstat watch wc which whoami xargs xxd yes zcat
    """


@dataclass(frozen=True)
class Userland:
    name: str  # ANDROID | HOST
    shell: str
    path: str  # where its tools are


def install_userland(wanted: str, system: Path, prefix: str) -> Userland:
    """Links in `system`/bin; `prefix` is `system` as commands may write it. HOST when the packages are not here."""
    mksh, toybox = shutil.which("mksh"), shutil.which("toybox")
    shutil.rmtree(system / "bin", ignore_errors=True)
    if wanted != ANDROID or not mksh or not toybox:
        return Userland(HOST, shutil.which("sh") or "/bin/sh", os.environ.get("PATH", os.defpath))
    (system / "bin").mkdir(parents=True)
    (system / "bin/sh").symlink_to(mksh)
    (system / "bin/toybox").symlink_to(toybox)
    listed = subprocess.run([toybox], capture_output=True, text=True, check=True).stdout
    for tool in set(TOOLS.split()) & set(listed.split()):
        (system / "bin" / tool).symlink_to("toybox")
    return Userland(ANDROID, f"{prefix}/bin/sh", f"{prefix}/bin")
