"""A runtime bundle whose agent is a few lines of shell: what the farm sees of an agent without a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from device_agent.protocol import (
    ENGINE_VERSION,
    PROTOCOL_VERSION,
    AgentError,
    EngineSpec,
    JobResult,
    JobSpec,
    to_json,
)
from orchestrator.farm.parcel import Parcel, bundle_parcel

# Waits for a file `go` in its job folder, so that a test decides when it ends.
WAITS = """
cd "$2"; echo start >>starts
echo '{"kind": "started", "time_s": 1.0, "data": {}}' >>events.jsonl
while [ ! -e go ]; do sleep 0.02; done
echo '{"kind": "done", "time_s": 2.0, "data": {}}' >>events.jsonl
echo '{"round": 0}' >rounds.jsonl
echo '{"node": 0}' >nodes.jsonl
cp "$here/canned.json" result.json.new && mv result.json.new result.json
"""

RESULT = JobResult(PROTOCOL_VERSION, "", "t1", ENGINE_VERSION, True, None, (), {"tokens_per_s": 2.5}, {}, {})


def job(attempt_id: str, target_pack: str = "", trial_id: str = "t1") -> dict[str, Any]:
    """JobSpec as JSON."""
    return to_json(JobSpec(PROTOCOL_VERSION, attempt_id, trial_id, target_pack, None, EngineSpec(), (), 4, ()))


def ok(attempt_id: str) -> bytes:
    return json.dumps(to_json(replace(RESULT, attempt_id=attempt_id))).encode()


def failed(attempt_id: str, kind: str) -> bytes:
    bad = replace(RESULT, attempt_id=attempt_id, ok=False, error=AgentError(kind, "it said no", "a traceback"))
    return json.dumps(to_json(bad)).encode()


def shell_agent(folder: Path, script: str, canned: bytes) -> Parcel:
    """Bundle in `folder` whose `agent` runs `script` ($2: job folder, $here: bundle) and may hand out `canned`."""
    files = {"agent": f'here=${{0%/*}}; here=$(cd "$here" && pwd)\n{script}'.encode(), "canned.json": canned}
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    listed = [{"name": n, "nbytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()]
    (folder / "bundle.json").write_text(json.dumps({"files": listed}))
    return bundle_parcel(folder)
