"""Which Ray node is which farm host."""

from typing import Any

import pytest

from orchestrator.ray_runtime.names import LABEL, farm_hosts


def node(node_id: str, machine: str, label: str = "", alive: bool = True) -> dict[str, Any]:
    labels = {LABEL: label} if label else {}
    return {"NodeID": node_id, "NodeManagerHostname": machine, "Labels": labels, "Alive": alive}


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([node("1", "desk")], {"here": "1"}),  # ours goes by LEVER_HOST
        ([node("1", "desk", "bench")], {"bench": "1"}),
        ([node("1", "desk"), node("2", "shelf")], {"here": "1", "shelf": "2"}),
        ([node("1", "desk"), node("2", "desk", "second")], {"here": "1", "second": "2"}),
        ([node("1", "desk"), node("2", "shelf", alive=False), node("3", "shelf")], {"here": "1", "shelf": "3"}),
        ([node("2", "here"), node("1", "desk")], {"here": "1"}),  # two of one name: ours
    ],
)
def test_a_host_goes_by_its_label_or_its_machines_name(nodes: list[dict[str, Any]], found: dict[str, str]) -> None:
    assert farm_hosts(nodes, here="1", host="here") == found
