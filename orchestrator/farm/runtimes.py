"""Which runtime bundle a phone gets: this host's Python for a virtual phone, a bundle of its ABI for any other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import PhoneUnsuitable
from orchestrator.farm.bundle import host_python_bundle
from orchestrator.farm.parcel import Parcel, bundle_parcel

HOST_PYTHON, BUNDLE = "host-python", "bundle"  # what facts say of a phone's runtime; "none" before it has one


def runtime_for(facts: Mapping[str, Any], home: Path) -> Parcel:
    """The newest bundle under `home`/runtime that the phone can execute. Raises PhoneUnsuitable naming its ABIs and
    those that there are bundles for."""
    if facts.get("runtime") == HOST_PYTHON:
        return host_python_bundle(home)
    wanted = tuple(facts.get("abis") or (facts.get("abi", "unknown"),))
    bundles = _by_abi(home / "runtime")
    for abi in wanted:
        if folder := bundles.get(abi):
            return bundle_parcel(folder)
    there = f"; there are bundles for {', '.join(sorted(bundles))}" if bundles else ""
    raise PhoneUnsuitable(
        f"no runtime bundle for this phone's {' or '.join(wanted)} processor{there}",
        "Trials run on virtual phones meanwhile: lever phones register virtual:oneplus12",
    )


def _by_abi(folder: Path) -> dict[str, Path]:
    """Bundles that say which processors they are for; the newest of each."""
    found: dict[str, Path] = {}
    for manifest in sorted(folder.glob("*/bundle.json"), key=lambda path: path.stat().st_mtime):
        try:
            abi = json.loads(manifest.read_bytes()).get("abi")
        except (ValueError, AttributeError):
            continue  # half written, or not ours
        if isinstance(abi, str):
            found[abi] = manifest.parent
    return found
