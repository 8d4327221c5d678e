"""A trial's round trace as typed Parquet: one row a verification round, the columns of protocol.RoundTrace."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from device_agent.protocol import RoundTrace, WireError, from_json

_TYPES: dict[Any, pa.DataType] = {int: pa.int64(), float: pa.float64(), str: pa.string()}
SCHEMA = pa.schema({name: _TYPES[kind] for name, kind in typing.get_type_hints(RoundTrace).items()})


def write_parquet(rounds_jsonl: str, path: Path) -> int:
    """Write `path`; returns how many lines were left out because they are no RoundTrace (a phone may die writing)."""
    found = [_trace(line) for line in rounds_jsonl.splitlines() if line.strip()]
    rows = [dataclasses.asdict(trace) for trace in found if trace is not None]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return len(found) - len(rows)


def _trace(line: str) -> RoundTrace | None:
    try:
        return from_json(RoundTrace, json.loads(line))
    except (ValueError, WireError):
        return None
