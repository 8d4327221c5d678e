"""Which runtime bundle a phone gets: this host's Python for a virtual phone, a bundle of its ABI for any other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.bundles.recipe import ABI
from orchestrator.errors import PhoneUnsuitable
from orchestrator.farm.bundle import arm64_bundle, host_python_bundle
from orchestrator.farm.parcel import Parcel, bundle_parcel

HOST_PYTHON, BUNDLE = "host-python", "bundle"  # what facts say of a phone's runtime; "none" before it has one


def runtime_for(facts: Mapping[str, Any], home: Path) -> Parcel:
    """What the phone can execute: what `lever bundle build` made, or the newest bundle under `home`/runtime that names
    its processor. Raises PhoneUnsuitable naming its ABIs and those that there are bundles for."""
    if facts.get("runtime") == HOST_PYTHON:
        return host_python_bundle(home)
    wanted = tuple(facts.get("abis") or (facts.get("abi", "unknown"),))
    if ABI in wanted and (built := arm64_bundle(home)):
        return built
    bundles = _by_abi(home / "runtime")
    for abi in wanted:
        if folder := bundles.get(abi):
            return bundle_parcel(folder)
    there = f"; there are bundles for {', '.join(sorted(bundles))}" if bundles else ""
    raise PhoneUnsuitable(f"no runtime bundle for this phone's {' or '.join(wanted)} processor{there}", _remedy(wanted))


def _remedy(wanted: Sequence[str]) -> str:
    if ABI in wanted:
        return "Build one on this machine, which takes some minutes: lever bundle build arm64"
    bits = "32-bit programs" if any(abi.startswith("armeabi") for abi in wanted) else "other programs"
    return f"It runs {bits} only, and the engine needs a 64-bit Arm processor ({ABI}): use another phone."


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
