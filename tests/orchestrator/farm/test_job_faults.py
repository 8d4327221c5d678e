"""What can happen to a phone while an agent runs on it: each is recognised, named, and followed by what to do."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from device_agent.protocol import PROTOCOL_VERSION, EngineSpec, JobSpec, PromptSpec, StorageSpec, to_json
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind
from orchestrator.farm import event_tail, job_folder
from orchestrator.farm.agent_client import run_attempt
from orchestrator.farm.attempt_watch import Limits
from orchestrator.farm.self_test import Shelf
from orchestrator.models.tiny_model import CONTEXT, write_tiny_pack
from orchestrator.retry import is_trials_fault
from tests.fakes.lab import ATTEMPT, Lab, gone, wait_until
from tests.fakes.shell_agent import WAITS, ok

PATIENT = Limits(poll=0.05, first_contact=10, unreachable=20, longest_backoff=0.2, birth=5, farewell=5)


def run(lab: Lab) -> AttemptOutcome:
    outcome = lab.run(limits=PATIENT)
    assert outcome.failure_message.startswith("phone desk: ")
    return outcome


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (("reboot", "0.2"), FailureKind.REBOOTED, r"the phone restarted during the run\. See why it restarts"),
        (("restart-adbd", "0.2"), FailureKind.ADBD_RESTARTED, r"its adbd restarted .* took the agent along\. Leave"),
        (("oom-kill",), FailureKind.OUT_OF_MEMORY, r"kernel killed the agent, out of memory\. Lower engine\.memory"),
        (("kill-agent",), FailureKind.AGENT_KILLED, r"the agent was killed \(SIGKILL\)\. See what else runs"),
        (("vanish-agent",), FailureKind.AGENT_VANISHED, r"the agent's process is gone without a word\. See what else"),
    ],
)
def test_what_ends_an_agent_from_outside(lab: Lab, fault: tuple[str, ...], kind: FailureKind, said: str) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: lab.bench.phone.tell(*fault)
    outcome = run(lab)
    assert outcome.failure_kind is kind
    assert re.search(said, outcome.failure_message)
    assert is_trials_fault(kind) is (kind is FailureKind.OUT_OF_MEMORY)
    wait_until(lambda: gone(lab.pid()))


@pytest.mark.parametrize("fault", [("reboot", "0.2"), ("restart-adbd", "0.2")])
def test_an_attempt_runs_after_the_phone_is_back(lab: Lab, fault: tuple[str, ...]) -> None:
    """The next attempt sweeps what the first one left, and its signs are its own."""
    lab.agent(WAITS, ok("t1.2"))
    lab.on["agent_event"] = lambda: lab.bench.phone.tell(*fault)
    run(lab)
    lab.on["agent_event"] = lambda: lab.file("go", "t1.2").touch()
    assert lab.run(lab.order(attempt_id="t1.2"), PATIENT).result is not None
    assert not lab.bench.file(f"jobs/{ATTEMPT}").exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGSEGV, "segmentation fault"), (signal.SIGILL, "does not have"), (signal.SIGABRT, "an abort")],
)
def test_a_crash_is_named_by_its_signal(lab: Lab, number: signal.Signals, said: str) -> None:
    lab.agent(f'cd "$2"; echo "loading layer 3"; kill -{int(number)} $$')
    outcome = run(lab)
    assert outcome.failure_kind is FailureKind.AGENT_CRASHED
    assert said in outcome.failure_message
    assert "loading layer 3" in outcome.failure_message
    assert "lever generate" in outcome.failure_message


@pytest.mark.parametrize(
    "words", ["ggml_aligned_malloc: insufficient memory (attempted to allocate 900 MB)", "MemoryError"]
)
def test_an_agent_that_gets_no_memory(lab: Lab, words: str) -> None:
    lab.agent(f"echo '{words}'; kill -{int(signal.SIGABRT)} $$")
    outcome = run(lab)
    assert outcome.failure_kind is FailureKind.OUT_OF_MEMORY
    assert words in outcome.failure_message


def test_a_disk_that_fills_up_during_the_run(lab: Lab) -> None:
    lab.agent(WAITS + '\necho "the rest" >>events.jsonl || exit 1', ok(ATTEMPT))

    def fill() -> None:
        lab.bench.phone.tell("disk-full")
        lab.let_go()

    lab.on["agent_event"] = fill
    outcome = run(lab)
    assert outcome.failure_kind is FailureKind.DISK_FULL
    assert "lever phones gc" in outcome.failure_message


def test_a_disk_that_was_full_when_the_agent_ended(lab: Lab) -> None:
    """Somebody made room before we looked."""
    lab.agent(WAITS.partition("cp ")[0] + "exit 1")  # nor could it write a result

    def fill_and_free() -> None:
        lab.bench.phone.tell("disk-full")
        lab.let_go()
        wait_until(lambda: lab.file("rc").exists())
        lab.bench.phone.tell("clear")

    lab.on["agent_event"] = fill_and_free
    assert run(lab).failure_kind is FailureKind.DISK_FULL


def test_a_disk_that_is_full_before_the_run(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.bench.phone.tell("disk-full")
    outcome = run(lab)
    assert outcome.failure_kind is FailureKind.DISK_FULL
    assert "lever phones gc" in outcome.failure_message
    assert not lab.bench.file(f"jobs/{ATTEMPT}/started").exists()


def test_a_disk_that_is_full_when_all_but_the_job_is_there(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lab.let_go
    assert lab.run(limits=PATIENT).result is not None
    lab.bench.phone.tell("disk-full")
    outcome = lab.run(lab.order(attempt_id="t1.2"), PATIENT)
    assert outcome.failure_kind is FailureKind.DISK_FULL
    assert "spec.json" in outcome.failure_message


def test_a_disk_that_fills_up_before_the_agent_starts(lab: Lab) -> None:
    """The signs could not be written, whatever else could be."""
    lab.agent(WAITS, ok(ATTEMPT))
    lab.bench.file(f"jobs/{ATTEMPT}").mkdir(parents=True)
    lab.bench.file(f"jobs/{ATTEMPT}/signs").symlink_to("/dev/null")
    outcome = run(lab)
    assert outcome.failure_kind is FailureKind.DISK_FULL
    assert not lab.bench.file(f"jobs/{ATTEMPT}/started").exists()


def test_a_storage_that_became_read_only(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.bench.phone.tell("read-only")
    outcome = run(lab)
    assert outcome.failure_kind in (FailureKind.COMMAND_FAILED, FailureKind.PROVISIONING)
    assert "Read-only file system" in outcome.failure_message


def test_the_real_agent_on_a_disk_that_fills_up(lab: Lab, tmp_path: Path) -> None:
    """Its own report cannot be written either: the phone's storage says why."""
    shelf = Shelf(tmp_path / "packs")
    prompts = tuple(PromptSpec(str(index), (1, 2, 3)) for index in range(2000))
    engine = EngineSpec(storage=StorageSpec("resident"), threads=1, n_ctx=CONTEXT)
    pack = write_tiny_pack(shelf.root)
    spec = JobSpec(PROTOCOL_VERSION, "full.1", "t1", pack, None, engine, prompts, 40, ())
    order = AttemptOrder("full.1", lab.bench.device, json.loads(json.dumps(to_json(spec))), 120)
    lab.on["agent_event"] = lambda: lab.bench.phone.tell("disk-full")
    outcome = run_attempt(order, lab.connect, shelf, lab.settings, lab.report, lab.cancelled, PATIENT)
    assert outcome.failure_kind is FailureKind.DISK_FULL
    wait_until(lambda: gone(int(lab.file("pid", "full.1").read_text())))


def test_a_phone_that_hangs_is_found_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation has a deadline; the attempt goes on meanwhile and is taken up again."""
    monkeypatch.setattr(job_folder, "COMMAND_S", 1.0)
    monkeypatch.setattr(event_tail, "READ_S", 1.0)
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: lab.bench.phone.tell("stall")

    def back() -> None:
        lab.bench.phone.tell("clear")
        lab.let_go()

    lab.on["connection_lost"] = back
    outcome = lab.run(limits=PATIENT)
    assert outcome.result is not None
    assert outcome.connection_losses == 1
    assert lab.file("starts").read_text().splitlines() == ["start"]


def test_a_stop_kills_the_whole_group(lab: Lab) -> None:
    """Children that ignore every polite word too."""
    lab.agent('trap "" TERM HUP INT; sh -c \'trap "" TERM HUP INT; echo $$ >child; sleep 1000\' & ' + WAITS)
    lab.on["agent_event"] = lab.cancelled.set
    assert lab.run(limits=PATIENT).failure_kind is FailureKind.CANCELLED
    wait_until(lambda: gone(lab.pid()))
    child = int(lab.file("child").read_text()) if lab.file("child").exists() else lab.pid()
    assert not Path(f"/proc/{child}").exists() or os.getpgid(child) != lab.pid()
