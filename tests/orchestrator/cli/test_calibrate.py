"""`lever calibrate`, `lever phones calibrate`: a tiny pair, the real agent, and a sweep that uses what they found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.cli.calibrate import calibration_prompts
from orchestrator.cli.main import run
from orchestrator.entities import Trial
from orchestrator.farm import virtual_phones
from orchestrator.models.store import ModelStore
from tests.fakes.tiny_pair import tiny_pair

Lever = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Lever]:
    """Runs `lever WORDS` in a farm that has the pair `tiny`: exit code, stdout, stderr."""
    home = tmp_path / "home"
    monkeypatch.setenv("LEVER_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "120")
    tiny_pair(home)
    conf = farm_settings.load().user_conf / "pair" / "tiny.yaml"  # as `lever models add` writes it
    conf.parent.mkdir(parents=True)
    conf.write_text("name: tiny\n")

    def lever(*words: str) -> tuple[int, str, str]:
        code = run(words)
        return (code, *capfd.readouterr())

    yield lever
    for name in virtual_phones.names(farm_settings.load()):
        virtual_phones.stop(farm_settings.load(), name)


def trials(sweep: str) -> list[Trial]:
    with closing(wiring.open_registry(farm_settings.load())) as registry:
        return registry.trials(sweep)


def test_what_was_learnt_and_measured_is_used(lever: Lever) -> None:
    code, out, err = lever("calibrate", "tiny", "--rounds", "2", "--threads", "1")
    assert code == 0, err
    assert "held out, built-in prior: log loss" in out
    assert "held out, fitted:" in out
    assert "pruning is off for this pair" in out
    assert "a pass over n tokens (1 threads, resident)" in out

    assert lever("phones", "register", "virtual:oneplus12", "--name", "desk")[0] == 0
    code, out, err = lever("phones", "calibrate", "desk", "--pair", "tiny", "--threads", "1")
    assert code == 0, err
    assert "reader threads" in out
    key = out.splitlines()[-1].split()[2]
    assert lever("phones", "calibrate", "desk", "--pair", "tiny", "--threads", "1")[1].endswith(
        f"desk: calibration {key} is kept from before (--again measures anew)\n"
    )

    words = ["pair=tiny", "engine=lever", "engine.threads=1", "engine.n_ctx=512", "workload=demo"]
    run_it = ["runtime=inline", "workload.max_new_tokens=4", "workload.limit=1", "sweep=used"]
    code, _, err = lever("sweep", *words, *run_it)
    assert code == 0, err
    (trial,) = trials("used")
    assert trial.result is not None
    (record,) = (farm_settings.load().models / "calibrations").glob("*.json")
    learnt = json.loads(record.read_text())["edges"]["key"]
    assert (trial.result["tags"]["calibration"], trial.result["tags"]["costs"]) == (learnt, key)
    assert trial.spec.labels["calibration"] == learnt


def test_prompts_that_were_learnt_from_are_refused(lever: Lever) -> None:
    assert lever("calibrate", "tiny", "--rounds", "2", "--threads", "1")[0] == 0
    assert lever("phones", "register", "virtual:oneplus12", "--name", "desk")[0] == 0
    words = ["pair=tiny", "workload=calibration", "workload.max_new_tokens=4", "runtime=inline"]
    code, _, err = lever("sweep", *words, "engine=lever")
    assert code == 2
    assert "error: prompt 'rotate-matrix' is one that calibration" in err
    assert "Measure on other prompts" in err


def test_the_bundled_prompts_are_the_pair_s_tokens(lever: Lever) -> None:
    store = ModelStore(farm_settings.load().models)
    prompts = calibration_prompts(store, store.pair("tiny"))
    assert len({prompt.token_ids for prompt in prompts}) == len(prompts) == 24


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("calibrate", "nobody"), "model pair 'nobody' is not added"),
        (("calibrate", "tiny", "--rounds", "0"), "--rounds"),
        (("calibrate", "tiny", "--temperature", "-1"), "temperature=-1"),
        (("calibrate", "tiny", "--temperature", "nan"), "'--temperature': nan is not a finite number"),
        (("calibrate", "tiny", "--temperature", "1", "--top-p", "nan"), "'--top-p': nan"),
        (("calibrate", "tiny", "--temperature", "1", "--min-p", "inf"), "'--min-p': inf"),
        (("phones", "calibrate", "desk", "--pair", "tiny"), "no such phone: 'desk'"),
        (("phones", "calibrate", "desk"), "--pair"),
        (("phones", "calibrate", "desk", "--pair", "tiny", "--storage", "tape"), "tape"),
    ],
)
def test_bad_input_is_named(lever: Lever, words: tuple[str, ...], named: str) -> None:
    code, _, err = lever(*words)
    assert code == 2
    assert err.startswith("error: ")
    assert named in err


def test_cores_that_were_tried_are_shown_kept_and_used(lever: Lever) -> None:
    assert lever("phones", "register", "virtual:oneplus12", "--name", "desk")[0] == 0
    words = ("phones", "calibrate", "desk", "--pair", "tiny", "--cores", "auto")
    code, out, err = lever(*words)
    assert code == 0, err
    assert "threads and cores tried" in out
    assert out.count("→") == 1
    key = out.splitlines()[-1].split()[2]
    assert "is kept from before" in lever(*words, "--threads", "7")[1]  # which says nothing where threads are chosen

    chosen = ("pair=tiny", "engine=lever", "engine.cores=auto", "engine.n_ctx=512", "workload=demo")
    code, _, err = lever("sweep", *chosen, "runtime=inline", "workload.max_new_tokens=4", "workload.limit=1", "sweep=s")
    assert code == 0, err
    (trial,) = trials("s")
    assert trial.result is not None
    assert trial.result["tags"]["cores"].endswith(f"(calibration {key})")
