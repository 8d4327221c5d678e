"""From a device to an open connection: where the phone listens now, and whether it is still the same phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from orchestrator.entities import Device
from orchestrator.errors import PhoneUnreachable, WrongPhone
from orchestrator.farm import virtual_phones
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from orchestrator.settings import Settings

CONNECT_S = 10.0
COMMAND_S = 15.0

Connect: TypeAlias = Callable[[Device], Transport]
"""Opens a new connection to the phone; close it (context manager). Raises PhoneError."""


def connector(settings: Settings, start: bool = True, timeout_s: float = CONNECT_S) -> Connect:
    """Connections as this farm host makes them. `start`: virtual phones of ours that do not run are started; without,
    they are unreachable."""

    def connect(device: Device) -> Transport:
        transport = open_address(settings, live_address(settings, device, start), timeout_s)
        try:
            _check_serial(transport, device)
        except BaseException:
            transport.close()
            raise
        return transport

    return connect


def open_address(settings: Settings, address: str, timeout_s: float = CONNECT_S) -> Transport:
    """Connected transport to an address (adb/connect.py) with this farm's ADB key. Raises PhoneUnauthorized when nobody
    allows the key within `timeout_s`."""
    transport = open_transport(address, key_path(settings))
    try:
        transport.connect(timeout_s)
    except BaseException:
        transport.close()
        raise
    return transport


def key_path(settings: Settings) -> Path:
    """The farm's own ADB key, mode 0600, made when it is first needed; its public part and the farm's adb server lie
    beside it."""
    return settings.home / "adb" / "key"


def live_address(settings: Settings, device: Device, start: bool = True) -> str:
    """Where the phone listens now; a virtual phone's port changes when it restarts. Raises PhoneUnreachable for one
    that does not run and is not to be started."""
    if not device.simulated or device.name not in virtual_phones.names(settings):
        return device.address
    if start:
        return virtual_phones.ensure_running(settings, device.name)
    if address := virtual_phones.address_of(settings, device.name):
        return address
    raise PhoneUnreachable(f"virtual phone {device.name} does not run", "Start the farm, which starts it: lever up")


def read_serial(transport: Transport) -> str:
    return transport.shell("getprop ro.serialno", COMMAND_S).stdout.strip()


def _check_serial(transport: Transport, device: Device) -> None:
    if (serial := read_serial(transport)) != device.serial:
        raise WrongPhone(
            f"phone {device.name}: another phone answers at {device.address}: it calls itself {serial!r}, "
            f"not {device.serial!r}",
            f"Connect {device.name} again and run: lever phones register {device.address.removeprefix('tcp:')}",
        )
