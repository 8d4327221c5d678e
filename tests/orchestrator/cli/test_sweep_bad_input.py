"""`lever sweep` with everything that people get wrong: one message with a remedy, nothing queued, nothing written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import settings, wiring
from orchestrator.cli.main import run
from orchestrator.models.add import add_files
from orchestrator.models.store import ModelStore
from tests.fakes.farm import phone
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm with a tiny pair `tiny` and a phone `oneplus12`, that nothing runs on."""
    home = tmp_path_factory.mktemp("home")
    gguf = write_tiny_gguf(home / "tiny.gguf", TinyModel())
    add_files(ModelStore(home / "models"), "tiny", gguf, gguf, lambda *_: None)
    (home / "conf" / "pair").mkdir(parents=True)
    (home / "conf" / "pair" / "tiny.yaml").write_text("name: tiny\n")
    (home / "bad.jsonl").write_text('{"id": "a", "text": "x"}\n{"id": "b"}\n')
    return home


@pytest.fixture(autouse=True)
def _farm(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LEVER_HOME", str(home))
    monkeypatch.delenv("LEVER_REGISTRY_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with closing(wiring.open_registry(settings.load())) as registry:
        registry.put_device(phone())
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level  # Hydra configures logging for its process


BAD = [
    # unknown groups, options and keys, with the nearest that exists
    ("engine=chian", "no such engine", "Did you mean chain?"),
    ("-m engine=autoregressive,chian", "job #1 (engine=chian): engine=chian: no such engine", "autoregressive, chain"),
    ("engin=chain", "Key 'engin'", "Did you mean engine?"),
    ("engine.drafing.k=3", "'engine.drafing.k'", "Did you mean engine.drafting.k?"),
    ("+engine.thread=2", "no key 'engine.thread'", "Did you mean engine.threads?"),
    ("--config-name nope", "'nope'", "--help"),
    ("--config-dir nope", "no such folder", "Name a folder"),
    # grammar
    ("engine=[chain", "cannot be read", "quotes"),
    ("engine=autoregressive,chain", "has several values", "add -m"),
    ("engine.drafting.k=range(1,5)", "has several values", "add -m"),
    ("-m hydra.job.num=1,2", "Sweeping over Hydra's configuration", "--help"),
    # types and ranges
    ("engine.cores=4-", "'4-' is neither a core nor a range of cores", "4-7"),
    ("engine.cores=0 engine.threads=2", "engine.threads=2 do not fit on the 1 cores", "one thread on a core"),
    ("engine.cores=auto engine.reader_cores=1", "chooses the reader's cores too", "engine.cores=4-7"),
    ("engine.threads=many", "could not be converted to Integer", "--help"),
    ("-m engine.threads=1,many", "job #1 (engine.threads=many)", "--help"),
    ("engine.threads=0", "engine.threads=0 is out of range", "1 to 256"),
    ("-m engine.drafting.k=1,65", "job #1 (engine.drafting.k=65): engine.drafting.k=65 is out of range", "1 to 64"),
    ("engine.storage.flash_bandwidth_mb_s=nan", "is out of range", "1 to 100000"),
    ("engine.storage.chunk_kib=5", "not a multiple of 4", "4 KiB"),
    ("engine.storage.mode=tape", "'tape' is not known", "flash, resident"),
    ("engine.strategy=magic", "'magic' is not known", "autoregressive, chain"),
    ("engine.strategy=static_tree", "has no engine.drafting.widths", "engine=static_tree"),
    ("engine=static_tree engine.drafting.widths=[64,64]", "a tree of 4160 nodes", "Narrow"),
    ("engine=static_tree engine.drafting.widths=[2,0]", "widths=0 is out of range", "1 to 64"),
    ("workload.sampling.temperature=-1", "temperature=-1.0 is out of range", "0 to 100"),
    ("workload.sampling.top_p=0", "top_p=0.0 is out of range", "1e-06 to 1"),
    ("runtime=slurm", "'slurm' is not known", "ray, inline"),
    ("sweep=../x", "no name for a sweep", "letters"),
    ("~engine.threads", "does not support deletion", "--help"),
    ("schedule.repeats=null", "not Optional", "--help"),
    # workloads
    ("workload=file", "has no prompts", "workload.file=PROMPTS.jsonl"),
    ("workload=file workload.file=none.jsonl", "cannot be read", "JSONL"),
    ("workload=file workload.file={home}/bad.jsonl", "bad.jsonl:2: prompt 'b'", "A prompt is"),
    ("workload.source=humaneval", "prompts from prompts and source", "exactly one"),
    ("engine.n_ctx=32", "more than engine.n_ctx=32", "Set engine.n_ctx="),
    # models, memory, phones
    ("pair=qwen-coder", "'qwen-coder' is not added", "lever models add qwen-coder"),
    ("pair=qwen", "no such pair", "tiny"),
    ("engine.memory.dram_budget_mb=10", "dram_budget_mb=10 is too small", "Raise the budget"),
    ("phones=nokia", "'nokia'", "oneplus12"),
    ("phones=soc:SM1", "matches no phone", "oneplus12"),
    ("-m phones=oneplus12,nokia", "job #1 (phones=nokia)", "oneplus12"),
    # batches
    ("-m sweep=a,b", "one batch has one sweep", "sweep="),
    ("-m runtime=ray,inline", "one batch has one runtime", "runtime="),
    ("hydra/launcher=basic", "hydra/launcher is not lever", "Leave it out"),
    ("hydra.sweep.dir=/proc/none", "cannot write to /proc/none", "hydra.sweep.dir"),
    ("--resolve", "--resolve goes with", "--cfg job --resolve"),
]


@pytest.mark.parametrize(("typed", "message", "remedy"), BAD, ids=[typed for typed, _, _ in BAD])
def test_bad_input_is_one_message_with_a_remedy_and_leaves_nothing(
    typed: str, message: str, remedy: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = typed.format(home=home).split()
    pair = [] if "pair=" in typed or typed.startswith("--c") else ["pair=tiny"]
    code = run(["sweep", *args, *pair])
    out, err = capsys.readouterr()
    assert code == 2, err
    assert err.startswith("error: ")
    assert message in err.splitlines()[0]
    assert remedy in err
    assert "Traceback" not in out + err
    assert len(err.splitlines()) == 2, "one message and its remedy"
    assert list(tmp_path.iterdir()) == []
    assert not (home / "sweeps").exists()
    with closing(wiring.open_registry(settings.load())) as registry:
        assert registry.sweeps() == []


@pytest.mark.parametrize(
    ("typed", "shows"),
    [
        ("--help", "lever sweep: run one trial"),
        ("--hydra-help", "--multirun"),
        ("--cfg job", "strategy: autoregressive"),
        ("--cfg job engine=chain --resolve", "strategy: chain"),
        ("--cfg hydra -p hydra.job", "name: lever-sweep"),
        ("--cfg job pair=tiny", "name: tiny"),
        ("--info searchpath", "lever-home"),
        ("--info plugins", "LeverLauncher"),
        ("--info defaults-tree", "workload: demo"),
        ("-sc install=bash", "hydra_bash_completion"),
    ],
)
def test_hydras_own_flags_work_without_a_farm(
    typed: str, shows: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *typed.split()]) == 0
    assert shows in capfd.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_ones_own_groups_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine" / "engine").mkdir(parents=True)
    (tmp_path / "mine" / "engine" / "deep.yaml").write_text("defaults: [chain]\ndrafting: {k: 12}\n")
    assert run(["sweep", "--config-dir", "mine", "--cfg", "job", "engine=deep"]) == 0
    assert "k: 12" in capsys.readouterr().out


def test_overrides_may_stand_on_both_sides_of_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "engine=chain", "--cfg", "job", "engine.drafting.k=7"]) == 0
    assert "k: 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("lever resul", "results"),
        ("lever sweep engine=s", "engine=static_tree"),
        ("lever sweep pair=tiny engine=c", "engine=chain"),
        ("lever sweep  engine.drafting.wid", "engine.drafting.widths."),
        ("lever down x", ""),
    ],
)
def test_the_shell_completes_commands_and_overrides(
    line: str, completed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    assert run(["-sc", "query=bash"]) == 0
    assert capsys.readouterr().out.strip() == completed
