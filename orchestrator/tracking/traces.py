"""A trial's traces as typed Parquet: the columns of protocol.RoundTrace and NodeTrace, one row a line."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from device_agent.protocol import NodeTrace, RoundTrace, WireError, from_json

_BEST = pa.list_(pa.struct([("token", pa.int64()), ("prob", pa.float64())]))
_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    int | None: pa.int64(),
    float: pa.float64(),
    float | None: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    tuple[tuple[int, float], ...] | None: _BEST,
}


def write_rounds(rounds_jsonl: str, path: Path) -> int:
    """Write `path`; returns how many lines were left out because they are no RoundTrace (a phone may die writing)."""
    return _write(RoundTrace, rounds_jsonl.splitlines(), path)


def write_nodes(nodes_packed: str, path: Path) -> int:
    """As `write_rounds`, of NodeTraces (gzip in base64)."""
    text = gzip.decompress(base64.b64decode(nodes_packed)).decode(errors="replace")
    return _write(NodeTrace, text.splitlines(), path)


def schema(kind: type) -> pa.Schema:
    return pa.schema({name: _TYPES[hint] for name, hint in typing.get_type_hints(kind).items()})


def _write(kind: type, lines: Iterable[str], path: Path) -> int:
    found = [_trace(kind, line) for line in lines if line.strip()]
    rows = [_row(trace) for trace in found if trace is not None]
    pq.write_table(pa.Table.from_pylist(rows, schema(kind)), path)
    return len(found) - len(rows)


def _row(trace: Any) -> dict[str, Any]:
    row = {field.name: getattr(trace, field.name) for field in dataclasses.fields(trace)}
    if row.get("target_top") is not None:
        row["target_top"] = [{"token": token, "prob": prob} for token, prob in row["target_top"]]
    return row


def _trace(kind: type, line: str) -> Any:
    try:
        return from_json(kind, json.loads(line))
    except (ValueError, WireError):
        return None
