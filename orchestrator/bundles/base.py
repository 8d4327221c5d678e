"""Build the slow part of an arm64 bundle: all but our agent, which is added when a phone needs it (farm/bundle.py)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.bundles.archive import folder_members, write_archive
from orchestrator.bundles.debian import fetch_debian
from orchestrator.bundles.ggml_build import build_ggml
from orchestrator.bundles.programs import check_programs
from orchestrator.bundles.python_packages import fetch_package
from orchestrator.bundles.recipe import ABI, DEBIAN, GGML, NUMPY, SUITE, TYPING, VARIANTS
from orchestrator.bundles.tree import build_tree
from orchestrator.errors import FetchFailed

ARCHIVE, MANIFEST = "base.tar.gz", "base.json"
LARGEST = 40_000_000  # bytes: more is a recipe that went wrong
Report = Callable[[str], None]
"""What begins now, in words."""


@dataclass(frozen=True)
class Base:
    folder: Path
    sha256: str  # of the archive
    nbytes: int
    made_of: Mapping[str, str]  # part → version

    @property
    def archive(self) -> Path:
        return self.folder / ARCHIVE

    @property
    def agent(self) -> Path:
        """The script that unpacks and starts it."""
        return Path(__file__).parent / "on_phone" / "agent"


def base_folder(home: Path) -> Path:
    return home / "bundles" / ABI


def find_base(home: Path) -> Base | None:
    """What was built last; None when nothing was, or its archive is gone."""
    folder = base_folder(home)
    try:
        stated = json.loads((folder / MANIFEST).read_bytes())
        base = Base(folder, stated["sha256"], stated["nbytes"], stated["made_of"])
        return base if base.archive.stat().st_size == base.nbytes else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def build_base(home: Path, report: Report, variants: Mapping[str, str] = VARIANTS, jobs: int = 0) -> Base:
    """Fetch, build and pack; replaces what was there. Raises UsageError for programs that are missing, FetchFailed and
    LeverError naming what failed: then what was there before stays, and nothing else but a log."""
    check_programs()
    folder = base_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".work-") as temporary:
        made = _build(Path(temporary), log, report, variants, jobs or os.cpu_count() or 1)
        for name in (
            ARCHIVE,
            MANIFEST,
        ):  # a manifest beside another archive is found out by the size, then by the phone
            os.replace(made / name, folder / name)
    base = find_base(home)
    if base is None:
        raise FetchFailed(f"what was built is not in {folder}", "Is another build running? Run it again.")
    return base


def _build(work: Path, log: Path, report: Report, variants: Mapping[str, str], jobs: int) -> Path:
    report(f"Debian {SUITE}'s Python and libraries for {ABI}")
    debian, versions = fetch_debian(DEBIAN, SUITE, work, log)
    report(f"numpy {NUMPY.version}, ggml-python {GGML.version}")
    numpy, typing, binding = (fetch_package(package, work, log) for package in (NUMPY, TYPING, GGML))
    ggml = build_ggml(binding / "vendor" / "ggml", dict(variants), work, log, jobs, report)
    report("packing")
    build_tree(work / "tree", debian, versions, (numpy, typing), binding, ggml)
    made = work / "made"
    made.mkdir()
    write_archive(made / ARCHIVE, folder_members(work / "tree"))
    shutil.rmtree(work / "tree")
    made_of = versions | {package.name: package.version for package in (NUMPY, TYPING, GGML)}
    made_of["ggml variants"] = ", ".join(variants)
    _write_manifest(made, made_of)
    return made


def _write_manifest(made: Path, made_of: Mapping[str, str]) -> None:
    data = (made / ARCHIVE).read_bytes()
    if len(data) > LARGEST:
        raise FetchFailed(f"the bundle came to {len(data) / 1e6:.0f} MB, and {LARGEST / 1e6:.0f} MB is the most")
    stated = {"sha256": hashlib.sha256(data).hexdigest(), "nbytes": len(data), "made_of": made_of}
    (made / MANIFEST).write_text(json.dumps(stated, indent=1, sort_keys=True))
