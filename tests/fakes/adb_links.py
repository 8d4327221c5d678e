"""Every pair of a phone and a client on which the transport contract is held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.server_process import stop_private_server
from tests.fakes.debian_adb import DebianAdb
from tests.fakes.debian_adbd import DebianAdbd, debian_tools, start_adbd
from tests.fakes.mtu_link import inside, mtu_link
from tests.fakes.phones import FakePhone, start_phone

AdbPhone = FakePhone | DebianAdbd
BACKENDS = {"adb_shell": "tcp", "adb_server": "wireless"}  # and the address that leads to each


def _pair(phone: str, client: str) -> object:
    quick = phone == "virtual" and client in BACKENDS
    return pytest.param((phone, client), id=f"{phone}-{client}", marks=[] if quick else [pytest.mark.slow])


OURS = [_pair(phone, client) for phone in ("virtual", "adbd", "adbd_mtu1500") for client in BACKENDS]
ALL = [*OURS, _pair("virtual", "debian_adb"), _pair("adbd", "debian_adb")]


@dataclass
class AdbLink:
    phone: AdbPhone
    open: Callable[[], Transport]  # not connected yet
    namespace: str | None = None  # of the network in which tests have to run

    def entered(self) -> AbstractContextManager[None]:
        return inside(self.namespace) if self.namespace else nullcontext()


@contextmanager
def adb_link(kinds: tuple[str, str], folder: Path) -> Iterator[AdbLink]:
    """`folder` holds the phone's files and the client's keys."""
    where, client = kinds
    with ExitStack() as stack:
        namespace = None
        if where == "virtual":
            phone: AdbPhone = start_phone(folder / 'it\'s a $(phone) "root"')  # breaks whatever is not quoted
        elif where == "adbd":
            phone = start_adbd(folder / "phone")
        else:
            debian_tools()  # fetched before the network is gone
            link = stack.enter_context(mtu_link())
            namespace = link.host
            with inside(link.phone):
                phone = start_adbd(folder / "phone", link.phone_address)
        stack.callback(phone.stop)
        yield AdbLink(phone, stack.enter_context(_opener(client, phone, folder)), namespace)


@contextmanager
def _opener(client: str, phone: AdbPhone, folder: Path) -> Iterator[Callable[[], Transport]]:
    if client == "debian_adb":
        home = folder / "home"
        home.mkdir()
        adb = DebianAdb(debian_tools() / "adb", home, phone.endpoint)
        yield lambda: adb
        adb.stop_server()
    else:
        key = folder / "adbkey"
        yield lambda: open_transport(f"{BACKENDS[client]}:{phone.endpoint}", key)
        stop_private_server(key)
