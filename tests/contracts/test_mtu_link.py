"""The cable with MTU 1500 is worth its name: it shows the fault that plain loopback hides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from adb_shell.adb_device import AdbDeviceTcp
from adb_shell.exceptions import TcpTimeoutException

from tests.fakes.debian_adbd import debian_tools, start_adbd
from tests.fakes.mtu_link import inside, mtu_link

TARGET = "/data/local/tmp/big"


@pytest.mark.slow
def test_bare_adb_shell_loses_bytes_there(tmp_path: Path) -> None:
    """Its socket's send() takes a part, and it goes on as if it had taken all; tcp_link.py does not."""
    debian_tools()
    (tmp_path / "big").write_bytes(os.urandom(20_000_000))
    with mtu_link() as link:
        with inside(link.phone):
            phone = start_adbd(tmp_path / "phone", link.phone_address)
        host, port = phone.endpoint.split(":")
        with inside(link.host):
            bare = AdbDeviceTcp(host, int(port), default_transport_timeout_s=3)
            bare.connect()
            with pytest.raises(TcpTimeoutException):
                bare.push(str(tmp_path / "big"), TARGET, read_timeout_s=3)
            bare.close()
        phone.stop()
