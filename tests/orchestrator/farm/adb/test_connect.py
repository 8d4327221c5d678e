from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.farm.adb.connect import open_transport, parse_endpoint


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("tcp:phone.local:5555", "phone.local", 5555),
        ("tcp:127.0.0.1:1", "127.0.0.1", 1),
        ("tcp:[::1]:99", "::1", 99),
        ("wireless:phone.local:5555", "phone.local", 5555),
    ],
)
def test_addresses(address: str, host: str, port: int) -> None:
    assert parse_endpoint(address) == (host, port)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "tcp:",
        "tcp:host",
        "tcp:host:",
        "tcp:host:port",
        "tcp::5",
        "tcp:h:0",
        "tcp:h:65536",
        "tcp:h:٣",
        "usb:",
        "wireless:host",
        "X",
    ],
)
def test_bad_addresses_are_refused_with_the_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="phone address") as caught:
        open_transport(address, tmp_path / "key")
    assert repr(address) in caught.value.message
    assert "tcp:HOST:PORT" in caught.value.remedy
