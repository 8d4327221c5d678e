"""What a phone finds in its folder before it starts: its commands, its shell's environment, its serial number."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from pathlib import Path

from device_agent.virtual import ask
from device_agent.virtual.files import Files

COMMANDS = ("getprop", "dumpsys", "cmd", "df", "uptime", "reboot", "settings")


def install_commands(folder: Path) -> None:
    """Scripts that ask the phone itself; -I and -S because each start counts."""
    folder.mkdir(exist_ok=True)
    script = Path(ask.__file__).absolute()
    for command in COMMANDS:
        target = folder / command
        target.write_text(
            f'#!/bin/sh\nexec "$LEVER_HOST_PYTHON" -I -S {shlex.quote(str(script))} {command} "$@"\n', encoding="utf-8"
        )
        target.chmod(0o755)


def shell_environment(files: Files, tools: str) -> dict[str, str]:
    """Nothing leaks in but what the host's Python may need to start: a clean environment, our commands first, then
    those of the PATH `tools`."""
    path = f"{files.prefix}/.phone/bin:{tools}"
    loader = {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in os.environ else {}
    return {
        **loader,
        "PATH": path,
        "HOME": f"{files.prefix}/data/local/tmp",
        "TMPDIR": f"{files.prefix}/data/local/tmp",
        "USER": "shell",
        "LANG": "C.UTF-8",
        "ANDROID_ROOT": f"{files.prefix}/system",
        "ANDROID_DATA": f"{files.prefix}/data",
        "LEVER_PHONE": files.prefix,
        "LEVER_HOST_PYTHON": sys.executable,
    }


def serial_number(file: Path) -> str:
    """Made once for a root, then kept: the same root is the same phone."""
    if not file.exists():
        file.write_text("VP" + secrets.token_hex(6).upper())
    return file.read_text()


def write_json(path: Path, data: dict[str, str | int]) -> None:
    """Renamed into place: readers see all of it or nothing."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(data))
    temporary.replace(path)
