"""Follows docs/add-a-strategy.md in a copy of the agent: its file, its configuration, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.tiny_pair import tiny_pair

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-strategy.md").read_text()


def shown(language: str) -> str:
    """The page's one block of code in `language`."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(block)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The program, changed as the page says."""
    for name in ("device_agent", "orchestrator", "hydra_plugins", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "device_agent/engine/strategies/repeat_last.py").write_text(shown("python"))
    (tmp_path / "mine/engine").mkdir(parents=True)
    (tmp_path / "mine/engine/repeat_last.yaml").write_text(shown("yaml"))
    return tmp_path


def lever(checkout: Path, *args: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(checkout), "LEVER_HOME": str(checkout / "home")}
    command = [sys.executable, "-P", "-m", "orchestrator", *args]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_file_and_one_configuration_make_a_strategy(checkout: Path) -> None:
    tiny_pair(checkout / "home")
    texts = [
        json.loads(lever(checkout, "generate", "tiny", "--ids", "5,6,6,6,6", "--json", "--engine", engine))
        for engine in ("autoregressive", "repeat_last")
    ]
    assert texts[1]["output_ids"] == texts[0]["output_ids"]
    assert texts[1]["tags"]["exactness"].startswith("exact 64/64")
    assert texts[1]["metrics"]["nodes_per_round"] > 1


def test_its_configuration_composes(checkout: Path) -> None:
    composed = lever(checkout, "sweep", "--config-dir", "mine", "engine=repeat_last", "--cfg", "job")
    assert "strategy: repeat_last" in composed
    assert re.search(r"model: false\s+k: 4", composed)
