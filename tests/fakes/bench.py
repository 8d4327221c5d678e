"""A real virtual phone that the farm's tests share, clean for each of them."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.entities import Device
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from tests.fakes.phones import FakePhone, start_phone

ROOT = "/data/local/tmp/lever"


@dataclass
class Bench:
    """One phone, the device that it is, and connections to it."""

    phone: FakePhone
    device: Device
    key: Path

    def connect(self, _: Device | None = None) -> Transport:
        transport = open_transport(self.phone.address, self.key)
        transport.connect(5)
        return transport

    def file(self, relative: str) -> Path:
        """Of our folder on the phone, seen from the host."""
        return self.phone.path(f"{ROOT}/{relative}")

    def clean(self) -> None:
        self.phone.tell("clear")
        self.phone.offline(0)  # ends an absence that a test left, and every connection
        deadline = time.monotonic() + 10
        while not _listens(self.phone.port):
            assert time.monotonic() < deadline, "the phone does not come back"
            time.sleep(0.01)
        shutil.rmtree(self.phone.path(ROOT), ignore_errors=True)


@pytest.fixture(scope="session")
def shared_phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    phone = start_phone(folder / "phone")
    try:
        # "tcp": the farm must not try to start it
        facts = {"runtime": "host-python"}
        device = Device("desk", phone.address, "tcp", "here", phone.serial, ROOT, facts=facts)
        yield Bench(phone, device, folder / "adbkey")
    finally:
        phone.stop()


@pytest.fixture
def bench(shared_phone: Bench) -> Iterator[Bench]:
    yield shared_phone
    shared_phone.clean()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
