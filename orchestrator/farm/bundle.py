"""Runtime bundles: for virtual phones device_agent as a zip that the host's Python runs, for real ones what
`lever bundle build` made, with device_agent beside it.

The hash is the sha256 of bundle.json and thus of the content alone: same sources, same hash, on any machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION
from orchestrator.bundles.archive import write_archive
from orchestrator.bundles.base import find_base
from orchestrator.bundles.recipe import ABI
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
    return _bundle(home, {"runtime": "host-python"}, {"device_agent.zip": _zipped_agent(), "agent": AGENT.encode()})


def arm64_bundle(home: Path) -> Parcel | None:
    """What `lever bundle build arm64` made, with the agent of this version; None when nothing was built."""
    base = find_base(home)
    if base is None:
        return None
    files = {"agent.tar.gz": _packed_agent(), "agent": base.agent.read_bytes()}
    said = {"runtime": "bundle", "abi": ABI, "made_of": dict(base.made_of)}
    return _bundle(home, said, files, {base.archive: _listed(base.archive.name, base.nbytes, base.sha256)})


def _bundle(
    home: Path,
    said: dict[str, Any],
    files: dict[str, bytes],
    links: Mapping[Path, dict[str, Any]] = MappingProxyType({}),
) -> Parcel:
    """`links`: large files that are here already, and how the manifest lists them."""
    listed = [_listed(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()]
    content = said | {
        "protocol_version": PROTOCOL_VERSION,
        "engine_version": ENGINE_VERSION,
        "files": [*links.values(), *listed],
    }
    manifest = json.dumps(content, indent=1, sort_keys=True).encode()
    folder = home / "runtime" / hashlib.sha256(manifest).hexdigest()
    if not folder.is_dir():
        _write(folder, {**files, "bundle.json": manifest}, list(links))
    return bundle_parcel(folder)


def _listed(name: str, nbytes: int, sha256: str) -> dict[str, Any]:
    return {"name": name, "nbytes": nbytes, "sha256": sha256}


def _packed_agent() -> bytes:
    members = [(f"site/{name}", data, False) for name, data in _agent_sources()]
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "agent.tar.gz"
        write_archive(file, members)
        return file.read_bytes()


def _zipped_agent() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in _agent_sources():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)
    return out.getvalue()


def _agent_sources() -> list[tuple[str, bytes]]:
    return sorted(_sources(resources.files("device_agent"), "device_agent"))


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir() and entry.name not in LEFT_OUT:
            found += _sources(entry, name)
        elif entry.name.endswith(".py"):
            found.append((name, entry.read_bytes()))
    return found


def _write(folder: Path, files: dict[str, bytes], links: Sequence[Path] = ()) -> None:
    """Whole or not at all, also when two processes build at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
        fresh = Path(temporary) / "bundle"
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        for file in links:
            os.link(file, fresh / file.name)
        try:
            os.rename(fresh, folder)
        except OSError:
            if not folder.is_dir():
                raise
