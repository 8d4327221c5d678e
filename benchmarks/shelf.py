"""Finished measurements on disk, one JSON file each, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from device_agent.protocol import WireError, from_json, to_json

T = TypeVar("T")


@dataclass(frozen=True)
class Shelf:
    folder: Path

    def find(self, kind: type[T], key: str) -> T | None:
        """A dataclass that was put there; None when it was not, or cannot be read any more: it is measured again."""
        try:
            return from_json(kind, json.loads(self._file(key).read_bytes()))
        except (OSError, ValueError, WireError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self._file(key).with_suffix(".tmp")
        temporary.write_text(json.dumps(to_json(value), allow_nan=False))
        temporary.replace(self._file(key))

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"
