"""Who holds a lease: a controller's process on a host, recognisable as gone by the next one on the same host."""

from __future__ import annotations

import os

import psutil


def new_owner(host: str) -> str:
    return f"{host}/{os.getpid()}/{_started(os.getpid())}"


def is_gone(owner: str, host: str) -> bool:
    """Whether this owner was a process of `host`, which is ours, and has ended: no need to wait for its lease."""
    where, _, process = owner.rpartition("/")
    where, _, pid = where.rpartition("/")
    return where == host and pid.isdecimal() and _started(int(pid)) != process


def _started(pid: int) -> str:
    """When the process started, so that a reused pid is not taken for it; empty when there is none."""
    try:
        return str(int(psutil.Process(pid).create_time() * 1000))
    except psutil.Error:
        return ""
