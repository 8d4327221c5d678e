"""The comparison with llama.cpp, with a binding of a few lines in place of the real one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import llama_cpp
from benchmarks.llama_cpp import LlamaCpp, install
from benchmarks.prompts import PromptSet
from device_agent.protocol import PromptSpec
from orchestrator.errors import LeverError

BINDING = """
class Llama:
    def __init__(self, path, n_ctx, n_threads, n_threads_batch, verbose):
        if path == "bad":
            raise ValueError("not a model")

    def generate(self, prompt, temp):
        while True:
            yield len(prompt)
"""
PROMPTS = PromptSet("set", (PromptSpec("a", (1, 2, 3)), PromptSpec("b", (1,))))


@pytest.fixture(autouse=True)
def binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp.py").write_text(BINDING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_each_prompt_is_decoded_for_as_many_tokens() -> None:
    times = LlamaCpp(Path(sys.executable), Path("good")).measure(PROMPTS, 5, 2, 64)
    assert times.output_ids == ((3,) * 5, (1,) * 5)
    assert times.tpot_s > 0


def test_what_went_wrong_is_told() -> None:
    with pytest.raises(LeverError, match="not a model"):
        LlamaCpp(Path(sys.executable), Path("bad")).measure(PROMPTS, 5, 2, 64)


def test_nothing_is_installed_for_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LeverError, match="no such file"):
        install(tmp_path / "environment", tmp_path / "none.gguf", print)
    assert not (tmp_path / "environment").exists()


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The compiler's flags of each build; pip does nothing, and a build with AMX dies at the first token."""
    made: list[str] = []

    def run(command: list[str], **environment: str) -> None:
        python = tmp_path / "environment" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        if not python.exists():
            python.symlink_to(sys.executable)
        if "pip" in command:
            made.append(environment["CXXFLAGS"])
            dies = "" if "no-amx" in made[-1] else "            import os; os.abort()\n"
            (tmp_path / "llama_cpp.py").write_text(BINDING.replace("            yield", f"{dies}            yield"))

    monkeypatch.setattr(llama_cpp, "_run", run)
    return made


def test_a_build_that_dies_is_made_again_without_amx(tmp_path: Path, builds: list[str]) -> None:
    gguf = tmp_path / "good.gguf"
    gguf.touch()
    found = install(tmp_path / "environment", gguf, print)
    assert found.build == "native without AMX"
    assert builds == [llama_cpp.CXXFLAGS, "-mno-amx-int8"]
    assert install(tmp_path / "environment", gguf, print) == found
    assert len(builds) == 2, "built once"
