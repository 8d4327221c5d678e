"""Address → transport: the one place that knows which backend serves which phone.

`tcp:HOST:PORT`       adb-shell, straight to the phone: ADB over TCP, virtual phones
`wireless:HOST:PORT`  through the farm's own adb server: wireless debugging, after pairing; any phone over TCP
`usb:SERIAL`          through the user's adb server, which holds the USB phones
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import UsageError
from orchestrator.farm.adb.contract import Transport

_REMEDY = "write it as tcp:HOST:PORT, wireless:HOST:PORT or usb:SERIAL, for example tcp:192.168.1.20:5555"


def open_transport(address: str, key_path: Path) -> Transport:
    """Not connected yet; `key_path` is the farm's ADB key, made when it is missing. Raises UsageError, and PhoneError
    when an adb server is needed and does not start."""
    kind, _, rest = address.partition(":")
    if kind == "usb" and rest:
        from orchestrator.farm.adb.adb_server import AdbServerTransport
        from orchestrator.farm.adb.server_process import user_server

        return AdbServerTransport(address, user_server(), rest)
    host, port = parse_endpoint(address)
    if kind == "wireless":
        from orchestrator.farm.adb.adb_server import AdbServerTransport
        from orchestrator.farm.adb.server_process import private_server

        return AdbServerTransport(address, private_server(key_path), rest, endpoint=rest)
    from orchestrator.farm.adb.adb_shell import AdbShellTransport  # 0.2 s: only when a phone is spoken to

    return AdbShellTransport(address, host, port, key_path)


def parse_endpoint(address: str) -> tuple[str, int]:
    """Host and port of `tcp:HOST:PORT` or `wireless:HOST:PORT` (an IPv6 host in brackets); raises UsageError."""
    kind, _, rest = address.partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("tcp", "wireless"):
        raise UsageError(f"phone address {address!r} is not one that this version can reach", _REMEDY)
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise UsageError(f"phone address {address!r} is not {kind}:HOST:PORT", _REMEDY)
    return host.removeprefix("[").removesuffix("]"), int(port)
