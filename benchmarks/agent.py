"""A job of the agent as a process of this machine, from its spec to its result and rounds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.cell import Measured
from device_agent.protocol import JobResult, JobSpec, RoundTrace, from_json, to_json
from orchestrator.errors import LeverError

ROOT = Path(__file__).parents[1]


class CellFailed(LeverError):
    """A job ended without a good result; its folder stays to be looked at."""


def run_job(label: str, spec: JobSpec, folder: Path, packs: Path) -> Measured:
    """Run `spec` in `folder`, which goes when all is well. Raises CellFailed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    named = replace(spec, attempt_id=folder.name, packs_dir=str(packs))
    (folder / "spec.json").write_text(json.dumps(to_json(named)))
    load = os.getloadavg()[0]
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "device_agent", "run", str(folder)]
        code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    file = folder / "result.json"
    result = from_json(JobResult, json.loads(file.read_bytes())) if file.is_file() else None
    if result is None or not result.ok:
        said = result.error.message if result and result.error else f"exit code {code.returncode}, no result"
        raise CellFailed(f"{label}: the agent failed: {said}", f"Look into {folder}")
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    rounds = [from_json(RoundTrace, json.loads(line)) for line in lines]
    timed = {prompt.id for prompt in spec.prompts}
    shutil.rmtree(folder)
    return Measured(label, load, result, tuple(trace for trace in rounds if trace.request in timed))
