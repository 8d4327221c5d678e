"""A virtual phone put together.

Its folder is its `/` (files.py says how paths map). Beside the phone's own folders it holds `phone.json` (pid, port,
profile, serial, name; there while the phone listens), `control.sock` and `.phone/` (commands, trusted keys, serial).
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

from device_agent.virtual import ask, sockets
from device_agent.virtual.answers import ADBD_PID, Answers, phone_properties
from device_agent.virtual.auth import Access, Policy
from device_agent.virtual.battery import Battery
from device_agent.virtual.body import Body
from device_agent.virtual.connection import Connection
from device_agent.virtual.control import serve_control
from device_agent.virtual.emulation import emulation
from device_agent.virtual.faults import Faults
from device_agent.virtual.files import Files
from device_agent.virtual.installation import install_commands, serial_number, shell_environment, write_json
from device_agent.virtual.limits import bind
from device_agent.virtual.link import Link
from device_agent.virtual.listener import Listener
from device_agent.virtual.nodes import Nodes
from device_agent.virtual.privileges import give_up_overrides
from device_agent.virtual.processes import Processes
from device_agent.virtual.profile import load_profile
from device_agent.virtual.shell import Shell
from device_agent.virtual.storage import Storage
from device_agent.virtual.stream import Service, Stream
from device_agent.virtual.sync import SyncSession
from device_agent.virtual.thermal import Thermal
from device_agent.virtual.userland import install_userland

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
BOOT_S = 2.0
_BANNER_KEYS = ("ro.product.name", "ro.product.model", "ro.product.device")
_REFRESH_S = 1.0


class VirtualPhone:
    """Raises KeyError for an unknown profile."""

    def __init__(self, root: Path, profile_name: str, name: str, policy: Policy, cgroups: bool = True) -> None:
        profile = load_profile(profile_name)
        own = root / ".phone"
        own.mkdir(parents=True, exist_ok=True)
        install_commands(own / "bin")
        serial = serial_number(own / "serial")
        profile_name = Path(profile_name).stem
        self._identity: dict[str, str | int] = {"profile": profile_name, "serial": serial, "name": name}
        self._files = Files(root)
        self._files.create()
        self._processes = Processes()
        self._link = Link()
        self._access = Access(policy, own / "adb_keys")
        userland = install_userland(profile.userland, root / "system", f"{self._files.prefix}/system")
        self._limits = bind(serial, profile.cores, profile.ram_mb, profile.flash_mb_s, root, cgroups)
        self._properties = phone_properties(profile, profile_name, serial, self._limits, userland.name)
        body = Body(profile, self._processes.usage)
        battery = Battery(profile, body)
        self._nodes = Nodes(root, profile, battery, self._limits)
        self._storage = Storage(root, profile.storage_gb * 10**9)
        self._answers = Answers(self._properties, battery, Thermal(body), self._storage, self._nodes)
        environment = shell_environment(self._files, userland.path) | emulation(profile.arch)
        look = self._nodes.refresh
        self._shell = Shell(self._processes, userland.shell, environment, self._link, self._storage, look)
        self._listener = Listener(self._connection)
        self._control: asyncio.Server | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1:`port` (0: any) and say so in phone.json. Raises OSError when the port is taken."""
        root = self._files.root
        os.chdir(root)  # where shells start, as on a phone
        give_up_overrides(root)
        self._processes.start()
        self._nodes.boot()
        await self._listener.start(port)
        self._refreshing = asyncio.create_task(self._refresh())
        faults = Faults(self._listener, self._link, self._access, self._processes, self._answers, self._restart)
        self._control = await serve_control(root, {**self._answers.commands(), **faults.commands()})
        write_json(root / "phone.json", {"pid": os.getpid(), "port": self._listener.port, **self._identity})

    def stop(self) -> None:
        """Nobody can connect any more and every process of the phone is gone, detached jobs too."""
        (self._files.root / "phone.json").unlink(missing_ok=True)
        if self._control:
            self._control.close()
        if self._refreshing:
            self._refreshing.cancel()
        self._listener.stop()
        self._processes.end_all()
        (self._files.root / ask.SOCKET_NAME).unlink(missing_ok=True)
        self._files.close()
        self._limits.release()

    def _restart(self, seconds: float, whole: bool) -> None:
        """A little later, so that whoever asks for it still gets an answer."""
        asyncio.get_running_loop().call_later(0.02, self._restart_now, seconds, whole)

    def _restart_now(self, seconds: float, whole: bool) -> None:
        """adbd takes its control group along, detached jobs too; a reboot everything, and the clock starts anew."""
        self._listener.go_offline(seconds)
        self._processes.end_all()
        self._properties[ADBD_PID] = str(int(self._properties[ADBD_PID]) + 1)
        if whole:
            self._nodes.boot()

    async def _refresh(self) -> None:
        """What the kernel shows changes while something runs; a phone at rest costs nothing."""
        while True:
            await self._processes.wait_for_any()
            self._nodes.refresh()
            await asyncio.sleep(_REFRESH_S)

    def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection:
        properties = "".join(f"{key}={self._properties[key]};" for key in _BANNER_KEYS)
        banner = f"device::{properties}features={FEATURES}".encode()
        return Connection(reader, writer, banner, self._access, self._open_service, self._link)

    def _open_service(self, destination: str, connection: Connection) -> Service | None:
        service, _, argument = destination.partition(":")
        name, *options = service.split(",")
        if name == "sync" and not argument:
            return self._sync
        if name in ("shell", "exec"):
            serve = self._shell.v2 if name == "shell" and "v2" in options else self._shell.plain
            return partial(serve, self._files.rewrite(argument))
        if name in ("tcp", "localabstract"):
            return sockets.dial(name, argument)
        if name == "reverse":
            return partial(connection.reverse.serve, argument)
        if name == "reboot":
            return self._reboot
        return None

    async def _sync(self, stream: Stream) -> None:
        await SyncSession(stream, self._files, self._storage).serve()

    async def _reboot(self, _: Stream) -> None:
        self._restart(BOOT_S, whole=True)
