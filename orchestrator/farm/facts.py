"""What a phone is: read once at registration, in one round trip, as the shell user may read it."""

from __future__ import annotations

import json
import re
from typing import Any

from orchestrator.errors import CommandFailed
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.provisioning import run
from orchestrator.farm.runtimes import HOST_PYTHON

READ_S = 20.0
HOST = "host"  # ro.lever.arch of a virtual phone that runs the host's programs
COMMAND = "getprop; echo '>'; cat /proc/meminfo; echo '>'; ls -d /sys/devices/system/cpu/cpu[0-9]*"
PROPERTY = re.compile(r"^\[(.*?)\]: \[(.*)\]$", re.MULTILINE)
SIMULATED = ("battery", "power", "temperature", "cpu", "flash_cap")  # what a virtual phone only states or imitates


def read_facts(phone: Transport) -> dict[str, Any]:
    """Keys: serial, model, soc, abi, abis, sdk, fingerprint, ram_mb, cores, runtime; for a virtual phone also profile,
    userland, limits, profile_cores, flash_mb_s, power_model {idle_w, cpu_w_per_core, flash_j_per_gb}, emulated and
    simulated (labels).

    `runtime` is "host-python" for virtual phones that run the host's programs, else "none" until registration brings a
    bundle (equipment.py)."""
    output = run(phone, COMMAND, READ_S)
    if output.count("\n>\n") != 2:
        raise CommandFailed(
            f"getprop and /proc/meminfo came to {_clean(output)[:120]!r}: that is no Android shell",
            "Check the address; restart the phone.",
        )
    properties, memory, cpus = output.split("\n>\n")
    props = {key: _clean(value) for key, value in PROPERTY.findall(properties)}
    facts = {
        "serial": props.get("ro.serialno", ""),
        "model": props.get("ro.product.model", "unknown"),
        "soc": props.get("ro.soc.model") or props.get("ro.board.platform", "unknown"),  # ro.soc.*: since Android 12
        "abi": props.get("ro.product.cpu.abilist", "unknown").split(",")[0],
        "abis": props.get("ro.product.cpu.abilist", "unknown").split(","),
        "sdk": _whole(props.get("ro.build.version.sdk", "")),
        "fingerprint": props.get("ro.build.fingerprint", ""),
        "ram_mb": _ram_mb(memory),
        "cores": len(cpus.split()),
        "runtime": "none",
    }
    return facts | _stated(props) if props.get("ro.lever.virtual") == "1" else facts


def _stated(props: dict[str, str]) -> dict[str, Any]:
    """What a virtual phone says of itself: its profile's numbers."""
    return {
        "profile": props["ro.lever.profile"],
        "profile_cores": int(props["ro.lever.profile_cores"]),
        "cores": int(props["ro.lever.cores"]),
        "ram_mb": int(props["ro.lever.ram_mb"]),
        "flash_mb_s": int(props["ro.lever.flash_mb_s"]),
        "power_model": json.loads(props["ro.lever.power_model"]),
        "userland": props.get("ro.lever.userland", "unknown"),  # mksh+toybox, as Android's, or the host's own
        "limits": json.loads(props.get("ro.lever.limits", "{}")),  # how cores, memory and flash are held to the profile
        # a phone whose processor is emulated needs what a real one needs
        "runtime": "none" if (emulated := props.get("ro.lever.arch", HOST) != HOST) else HOST_PYTHON,
        "emulated": emulated,
        "simulated": [*SIMULATED, *(["instructions"] if emulated else [])],
    }


def _clean(text: str) -> str:
    """Without what a terminal would obey: the phone's words are shown to people."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _ram_mb(meminfo: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0
