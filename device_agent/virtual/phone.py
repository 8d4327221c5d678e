"""A virtual phone put together.

Its folder is its `/` (files.py says how paths map). Beside the phone's own folders it holds `phone.json` (pid, port,
profile, serial, name; there while the phone listens), `control.sock` and `.phone/` (commands, trusted keys, serial).
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

from device_agent.virtual import ask
from device_agent.virtual.answers import Answers, phone_properties
from device_agent.virtual.auth import Access, Policy
from device_agent.virtual.battery import Battery
from device_agent.virtual.connection import Connection, Service
from device_agent.virtual.control import serve_control
from device_agent.virtual.faults import Faults
from device_agent.virtual.files import Files
from device_agent.virtual.installation import (
    install_commands,
    limit_cores,
    serial_number,
    shell_environment,
    write_json,
)
from device_agent.virtual.listener import Listener
from device_agent.virtual.processes import Processes
from device_agent.virtual.profile import load_profile
from device_agent.virtual.shell import Shell
from device_agent.virtual.stream import Stream
from device_agent.virtual.sync import SyncSession

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
_BANNER_KEYS = ("ro.product.name", "ro.product.model", "ro.product.device")


class VirtualPhone:
    """Raises KeyError for an unknown profile."""

    def __init__(self, root: Path, profile_name: str, name: str, policy: Policy) -> None:
        profile = load_profile(profile_name)
        own = root / ".phone"
        own.mkdir(parents=True, exist_ok=True)
        install_commands(own / "bin")
        serial = serial_number(own / "serial")
        self._identity: dict[str, str | int] = {"profile": profile_name, "serial": serial, "name": name}
        self._files = Files(root)
        self._files.create()
        self._processes = Processes()
        self._access = Access(policy, own / "adb_keys")
        self._properties = phone_properties(profile, profile_name, serial, limit_cores(profile.cores))
        battery = Battery(profile, self._processes)
        self._answers = Answers(self._properties, battery, root, profile.storage_gb * 10**9)
        self._shell = Shell(self._processes, shell_environment(self._files))
        self._listener = Listener(self._connection)
        self._control: asyncio.Server | None = None

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1:`port` (0: any) and say so in phone.json. Raises OSError when the port is taken."""
        root = self._files.root
        os.chdir(root)  # where shells start, as on a phone
        self._processes.start()
        await self._listener.start(port)
        faults = Faults(self._listener, self._access)
        self._control = await serve_control(root, {**self._answers.commands(), **faults.commands()})
        write_json(root / "phone.json", {"pid": os.getpid(), "port": self._listener.port, **self._identity})

    def stop(self) -> None:
        """Nobody can connect any more and every process of the phone is gone, detached jobs too."""
        (self._files.root / "phone.json").unlink(missing_ok=True)
        if self._control:
            self._control.close()
        self._listener.stop()
        self._processes.end_all()
        (self._files.root / ask.SOCKET_NAME).unlink(missing_ok=True)
        self._files.close()

    def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection:
        properties = "".join(f"{key}={self._properties[key]};" for key in _BANNER_KEYS)
        banner = f"device::{properties}features={FEATURES}".encode()
        return Connection(reader, writer, banner, self._access, self._open_service)

    def _open_service(self, destination: str) -> Service | None:
        service, _, argument = destination.partition(":")
        name, *options = service.split(",")
        if name == "sync" and not argument:
            return self._sync
        if name in ("shell", "exec"):
            serve = self._shell.v2 if name == "shell" and "v2" in options else self._shell.plain
            return partial(serve, self._files.rewrite(argument))
        return None

    async def _sync(self, stream: Stream) -> None:
        await SyncSession(stream, self._files).serve()
