"""From a device to an open connection: where the phone listens now, and whether it is still the same phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from orchestrator.entities import Device
from orchestrator.errors import WrongPhone
from orchestrator.farm import virtual_phones
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from orchestrator.settings import Settings

CONNECT_S = 10.0
COMMAND_S = 15.0

Connect: TypeAlias = Callable[[Device], Transport]
"""Opens a new connection to the phone; close it (context manager). Raises PhoneError."""


def connector(settings: Settings) -> Connect:
    """Connections as this farm host makes them: virtual phones of ours are started when they do not run."""

    def connect(device: Device) -> Transport:
        transport = open_address(settings, live_address(settings, device))
        try:
            _check_serial(transport, device)
        except BaseException:
            transport.close()
            raise
        return transport

    return connect


def open_address(settings: Settings, address: str, timeout_s: float = CONNECT_S) -> Transport:
    """Connected transport to `tcp:HOST:PORT` with this farm's ADB key. Raises PhoneUnauthorized when nobody allows the
    key within `timeout_s`."""
    transport = open_transport(address, settings.home / "adb" / "key")
    try:
        transport.connect(timeout_s)
    except BaseException:
        transport.close()
        raise
    return transport


def live_address(settings: Settings, device: Device) -> str:
    """Where the phone listens now; a virtual phone's port changes when it restarts."""
    if device.simulated and device.name in virtual_phones.names(settings):
        return virtual_phones.ensure_running(settings, device.name)
    return device.address


def read_serial(transport: Transport) -> str:
    return transport.shell("getprop ro.serialno", COMMAND_S).stdout.strip()


def _check_serial(transport: Transport, device: Device) -> None:
    if (serial := read_serial(transport)) != device.serial:
        raise WrongPhone(
            f"phone {device.name}: another phone answers at {device.address}: it calls itself {serial!r}, "
            f"not {device.serial!r}",
            f"Connect {device.name} again and run: lever phones register {device.address.removeprefix('tcp:')}",
        )
