"""Which Ray node is which farm host. Without Ray, so that it can be read before Ray is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LABEL = "lever-host"  # of a node: its farm host's name, where that is not the machine's

FEW_CALLS = 1000  # running attempts and stops that one worker serves at once


def farm_hosts(nodes: Iterable[dict[str, Any]], here: str, host: str) -> dict[str, str]:
    """Farm host → node id, of the nodes that are alive; `here` is our own node, whose farm host is `host`. Where two
    nodes go by one name ours is meant, else the first."""
    alive = sorted((node for node in nodes if node["Alive"]), key=lambda node: node["NodeID"] != here)
    found: dict[str, str] = {}
    for node in alive:
        ours = host if node["NodeID"] == here else str(node["NodeManagerHostname"])
        found.setdefault(node["Labels"].get(LABEL) or ours, node["NodeID"])
    return found


def worker_name(host: str) -> str:
    """Of the actor that works on the host's phones."""
    return f"host-{host}"
