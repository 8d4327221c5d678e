"""`make demo` as a person runs it: the Qwen pair on two virtual phones through the service, then once more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.models.store import ModelStore

PHONES = ("oneplus12 (virtual)", "pixel8 (virtual)")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_demo_on_the_qwen_pair_ends_exact_and_runs_nothing_twice(qwen_coder: ModelStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(qwen_coder.root)

    first = _lever(home, "demo", "--pair", "qwen-coder")

    trials = json.loads(_lever(home, "results", "demo-qwen-coder", "--json"))["trials"]
    assert {(t["phone"], t["strategy"]) for t in trials} == {
        (p, s) for p in PHONES for s in ("autoregressive", "chain k=5")
    }
    for trial in trials:
        assert trial["state"] == "done"
        assert trial["diverged_tokens"] == 0
        assert trial["exact_tokens"] + trial["tie_tokens"] == trial["output_tokens"]
        assert trial["flash_cap_mb_s"] == "500"
    chains = [t for t in trials if t["strategy"] == "chain k=5"]
    assert all(t["acceptance_length"] > 2 and "speedup_over_autoregressive" in t for t in chains)
    assert "is down" in first
    assert "nothing to run" in _lever(home, "demo", "--pair", "qwen-coder")


def _lever(home: Path, *args: str) -> str:
    command = [sys.executable, "-m", "orchestrator", *args]
    done = subprocess.run(
        command, env=os.environ | {"LEVER_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + (done.stderr if args[0] == "demo" else "")
