"""A whole run with real jobs, small in every respect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.scope import QUICK
from tests.fakes.tiny_gguf import TinyModel
from tests.fakes.tiny_pair import tiny_pair

SMALL = replace(
    QUICK, limit_s=None, sets=1, tokens=6, plain_tokens=3, calibration_tokens=4, k_step=11, trees=("thin-5",)
)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # some forty jobs
def test_a_run_ends_with_all_figures_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_pair(tmp_path, TinyModel(n_layers=8))
    results = tmp_path / "results"
    monkeypatch.setattr(command, "QUICK", SMALL)
    monkeypatch.setattr(command, "RESULTS", results)
    for name, value in {"QUICK": "1", "PAIR": "tiny", "LEVER_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert command.main() == 0
    figures = json.loads((results / "engine.json").read_text())
    assert figures["complete"]
    assert figures["exact_fraction"] == 1.0
    assert figures["absent"].keys() == {"resident.over_llama_cpp"}
    assert not list((results / "jobs").iterdir())
    cells = {file: file.stat().st_mtime_ns for file in (results / "cells").iterdir()}
    assert "cap_1000 · code-1 · lever" in capsys.readouterr().out
    assert command.main() == 0
    assert {file: file.stat().st_mtime_ns for file in (results / "cells").iterdir()} == cells
    again = json.loads((results / "engine.json").read_text())
    assert again == figures


def test_an_unknown_pair_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"QUICK": "1", "PAIR": "nobody", "LEVER_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert command.main() == 2
    out = capsys.readouterr().out
    assert "nobody" in out
    assert "Traceback" not in out
