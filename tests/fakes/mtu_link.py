"""A cable: two network namespaces joined by a veth pair with Ethernet's MTU. Needs root and iproute2."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CLONE_NEWNET = 0x40000000
MTU = 1500
_number = itertools.count()


@dataclass(frozen=True)
class Link:
    host: str  # names of the namespaces
    phone: str
    phone_address: str


@contextmanager
def mtu_link() -> Iterator[Link]:
    name = f"lever-{os.getpid()}-{next(_number)}"
    link = Link(f"{name}-host", f"{name}-phone", "10.213.7.2")
    try:
        for name in (link.host, link.phone):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", link.host, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", link.phone)
        for name, address in ((link.host, "10.213.7.1"), (link.phone, link.phone_address)):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            # segments as a network card cuts them, not the 64 KB that virtual cables carry
            _ip("-n", name, "link", "set", "cable", "mtu", str(MTU), "gso_max_segs", "1")
            _ip("-n", name, "link", "set", "cable", "up")
        yield link
    finally:
        for name in (link.host, link.phone):
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread, and the threads and processes that it starts, have the namespace's network."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(before)
        os.close(there)
        os.close(before)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
