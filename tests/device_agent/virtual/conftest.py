"""A connection to the phone that a module's own `phone` fixture starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from tests.fakes.phones import FakePhone


@pytest.fixture
def transport(phone: FakePhone, tmp_path: Path) -> Iterator[Transport]:
    with open_transport(phone.address, tmp_path / "adbkey") as opened:
        opened.connect(10)
        yield opened
