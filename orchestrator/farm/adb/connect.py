"""Address → transport: the one place that knows which backend serves which phone."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import UsageError
from orchestrator.farm.adb.contract import Transport

_REMEDY = "write it as tcp:HOST:PORT, for example tcp:192.168.1.20:5555"


def open_transport(address: str, key_path: Path) -> Transport:
    """Transport for `tcp:HOST:PORT`, not connected yet; `key_path` is the farm's ADB key, made when it is missing."""
    host, port = parse_tcp(address)
    from orchestrator.farm.adb.adb_shell import AdbShellTransport  # 0.2 s: only when a phone is spoken to

    return AdbShellTransport(address, host, port, key_path)


def parse_tcp(address: str) -> tuple[str, int]:
    """Host and port of `tcp:HOST:PORT` (an IPv6 host in brackets); raises UsageError."""
    kind, _, rest = address.partition(":")
    host, _, port = rest.rpartition(":")
    if kind != "tcp":
        raise UsageError(f"phone address {address!r} is not one that this version can reach", _REMEDY)
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise UsageError(f"phone address {address!r} is not tcp:HOST:PORT", _REMEDY)
    return host.removeprefix("[").removesuffix("]"), int(port)
