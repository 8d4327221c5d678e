"""The runtime bundle of virtual phones: device_agent as a zip that the host's Python runs.

The hash is the sha256 of bundle.json and thus of the content alone: same sources, same hash, on any machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION
from orchestrator.farm.parcel import Parcel, bundle_parcel

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
LEFT_OUT = {"virtual", "__pycache__"}  # the phone itself is not the agent's business

AGENT = """#!/bin/sh
# Runs the agent with the Python of the host that pretends to be this phone: agent run JOB_DIR | probe | stop JOB_DIR
here=$(cd "${0%/*}" && pwd)
PYTHONPATH="$here/device_agent.zip" PYTHONDONTWRITEBYTECODE=1 exec "$LEVER_HOST_PYTHON" -P -m device_agent "$@"
"""


def host_python_bundle(home: Path) -> Parcel:
    """Build the bundle under `home`/runtime/<hash> unless it is there; returns what to ship."""
    files = {"device_agent.zip": _zipped_agent(), "agent": AGENT.encode()}
    manifest = _manifest(files)
    folder = home / "runtime" / hashlib.sha256(manifest).hexdigest()
    if not folder.is_dir():
        _write(folder, {**files, "bundle.json": manifest})
    return bundle_parcel(folder)


def _manifest(files: dict[str, bytes]) -> bytes:
    listed = [
        {"name": name, "nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    ]
    content = {
        "runtime": "host-python",
        "protocol_version": PROTOCOL_VERSION,
        "engine_version": ENGINE_VERSION,
        "files": listed,
    }
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _zipped_agent() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(_sources(resources.files("device_agent"), "device_agent")):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)
    return out.getvalue()


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir() and entry.name not in LEFT_OUT:
            found += _sources(entry, name)
        elif entry.name.endswith(".py"):
            found.append((name, entry.read_bytes()))
    return found


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Whole or not at all, also when two processes build at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
        fresh = Path(temporary) / "bundle"
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        try:
            os.rename(fresh, folder)
        except OSError:
            if not folder.is_dir():
                raise
