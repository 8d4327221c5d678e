from __future__ import annotations

import base64
import gzip
import json
import os
import signal
from collections.abc import Callable

import pytest

from orchestrator.entities import AttemptOrder, Device, FailureKind
from orchestrator.errors import PhoneUnauthorized, PhoneUnreachable
from orchestrator.farm import collection, job_folder, preparation
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.agent_client import forget_attempt, stop_attempt
from orchestrator.farm.attempt_watch import Limits
from tests.fakes.bench import ROOT
from tests.fakes.lab import ATTEMPT, HANDS_OUT, Lab, NoPacks, gone, wait_until
from tests.fakes.shell_agent import WAITS, failed, job, ok


def test_a_result_is_not_lost_to_a_trace_that_is_too_long(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "NODES_LIMIT", 5)
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lab.let_go
    outcome = lab.run()
    assert (outcome.failure_kind, outcome.nodes_packed) == (None, "")
    assert "nodes.jsonl has 12 bytes, 5 are allowed; engine.trace_nodes=false" in outcome.log_tail


def test_brings_the_result_home(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lab.let_go
    outcome = lab.run()
    assert outcome.result is not None
    assert outcome.result["metrics"] == {"tokens_per_s": 2.5}
    assert outcome.rounds_jsonl == '{"round": 0}\n'
    assert gzip.decompress(base64.b64decode(outcome.nodes_packed)) == b'{"node": 0}\n'
    assert (outcome.failure_kind, outcome.connection_losses) == (None, 0)
    events = [p.data["kind"] for p in lab.progress if p.kind == "agent_event"]
    assert events == ["started", "done"]
    assert json.loads(lab.file("spec.json").read_text())["attempt_id"] == ATTEMPT


def test_a_cut_cable_loses_nothing_and_reruns_nothing(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: lab.bench.phone.offline(0.3)
    lab.on["reattached"] = lab.let_go
    outcome = lab.run()
    assert outcome.result is not None
    assert outcome.connection_losses == 1
    assert lab.file("starts").read_text().splitlines() == ["start"]
    assert lab.kinds() == ["agent_event", "connection_lost", "reattached", "agent_event"]


def test_a_cut_while_provisioning_goes_on(lab: Lab) -> None:
    lab.agent(HANDS_OUT, ok(ATTEMPT))
    lab.on["provisioning"] = lab.bench.phone.cut
    outcome = lab.run()
    assert outcome.result is not None
    assert outcome.connection_losses == 1
    assert lab.file("starts").read_text().splitlines() == ["start"]


def test_finds_an_attempt_that_runs_already(lab: Lab) -> None:
    """As after a restart of the controller: the job folder is there."""
    lab.agent(WAITS, ok(ATTEMPT))

    class ControllerDied(Exception): ...

    def die() -> None:
        raise ControllerDied

    lab.on["agent_event"] = die
    with pytest.raises(ControllerDied):
        lab.run()
    lab.on["reattached"] = lab.let_go
    outcome = lab.run()
    assert outcome.result is not None
    assert lab.file("starts").read_text().splitlines() == ["start"]


def test_starting_twice_runs_once(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    with lab.bench.connect() as phone:
        preparation.prepare_and_start(phone, lab.order(), NoPacks(), lab.settings, lambda done, total: None)
        job_folder.start(phone, ROOT, ATTEMPT, b"{}", "0" * 64)
    lab.on["reattached"] = lab.let_go
    assert lab.run().result is not None
    assert lab.file("starts").read_text().splitlines() == ["start"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_agent_killed(lab: Lab, number: signal.Signals) -> None:
    lab.agent(f'cd "$2"; echo "about to be killed"; kill -{int(number)} $$')
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.AGENT_KILLED
    assert "phone desk" in outcome.failure_message
    assert "about to be killed" in outcome.log_tail


def test_agent_vanished(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: os.killpg(lab.pid(), signal.SIGKILL)
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.AGENT_VANISHED
    assert outcome.failure_message.startswith("phone desk: the agent's process is gone without a word. See what else")


def test_a_recycled_pid_is_not_the_agent(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))

    def recycle() -> None:
        os.killpg(lab.pid(), signal.SIGKILL)
        lab.file("pid").write_text(f"{os.getpid()}\n")

    lab.on["agent_event"] = recycle
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.AGENT_VANISHED


def test_a_pid_that_is_being_written_is_not_of_a_process_that_is_gone(lab: Lab) -> None:
    with lab.bench.connect() as phone:
        lab.file("started").mkdir(parents=True)
        lab.file("pid").touch()
        state = job_folder.look(phone, ROOT, ATTEMPT)
        assert (state.started, state.has_pid, state.alive) == (True, False, False)


def test_exit_code_without_a_result(lab: Lab) -> None:
    lab.agent("echo 'Traceback: it broke'; exit 3")
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.ENGINE_ERROR
    assert "exit code 3: Traceback: it broke" in outcome.failure_message


def test_full_disk_is_named(lab: Lab) -> None:
    lab.agent("echo 'cp: write error: No space left on device'; exit 1")
    assert lab.run().failure_kind == FailureKind.DISK_FULL


@pytest.mark.parametrize("kind", ["out_of_memory", "nan_logits", "budget_too_small", "pack_corrupt"])
def test_failures_that_the_agent_tells(lab: Lab, kind: str) -> None:
    lab.agent(HANDS_OUT, failed(ATTEMPT, kind))
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind(kind)
    assert outcome.failure_message == "phone desk: it said no"
    assert outcome.result is None
    assert outcome.log_tail == "a traceback"


@pytest.mark.parametrize(
    ("canned", "why"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "expected an object"),
        (ok("another.1"), "belongs to attempt 'another.1'"),
        (ok(ATTEMPT).replace(b"2.5", b"NaN"), "NaN is not a number"),
        (ok(ATTEMPT).replace(b'"version": 1', b'"version": 99'), "protocol version 99"),
        (ok(ATTEMPT).replace(b'"plan"', b'"__import__"'), "unknown field '__import__'"),
        (b'{"a": "\xff"}', "can't decode"),
    ],
)
def test_a_bad_result_is_refused(lab: Lab, canned: bytes, why: str) -> None:
    lab.agent(HANDS_OUT, canned)
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.BAD_RESULT
    assert why in outcome.failure_message


def test_an_unreadable_spec_is_told_as_such(lab: Lab) -> None:
    """The agent that cannot read its spec does not know its trial."""
    lab.agent(HANDS_OUT, failed(ATTEMPT, "bad_spec").replace(b'"trial_id": "t1"', b'"trial_id": ""'))
    assert lab.run().failure_kind == FailureKind.BAD_SPEC


def test_deadline_ends_the_whole_group(lab: Lab) -> None:
    lab.agent("sleep 1000 & wait")
    outcome = lab.run(lab.order(deadline_s=0.3))
    assert outcome.failure_kind == FailureKind.DEADLINE
    wait_until(lambda: gone(lab.pid()))


def test_cancelled_ends_the_whole_group(lab: Lab) -> None:
    lab.agent('trap "" TERM; ' + WAITS)
    lab.on["agent_event"] = lab.cancelled.set
    outcome = lab.run()
    assert outcome.failure_kind == FailureKind.CANCELLED
    wait_until(lambda: gone(lab.pid()))


def test_stop_and_forget_from_elsewhere(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: stop_attempt(lab.order(), lab.connect)
    assert lab.run().failure_kind == FailureKind.AGENT_VANISHED
    forget_attempt(lab.order(), lab.connect)
    assert not lab.bench.file(f"jobs/{ATTEMPT}").exists()
    stop_attempt(lab.order(), lab.connect)  # nothing there: nothing happens
    forget_attempt(lab.order(), lab.connect)


def test_orphans_are_swept(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    with lab.bench.connect() as phone:
        order = lab.order(attempt_id="old one.1")
        preparation.prepare_and_start(phone, order, NoPacks(), lab.settings, lambda done, total: None)
    wait_until(lab.file("starts", "old one.1").exists)
    orphan = int(lab.file("pid", "old one.1").read_text())
    lab.on["agent_event"] = lab.let_go
    assert lab.run().result is not None
    wait_until(lambda: gone(orphan))
    assert not lab.bench.file("jobs/old one.1").exists()


def test_a_phone_that_stays_away(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: lab.bench.phone.offline(60)
    outcome = lab.run(limits=Limits(poll=0.02, unreachable=0.5, longest_backoff=0.1))
    assert outcome.failure_kind == FailureKind.UNREACHABLE
    assert outcome.connection_losses == 1


def test_cancelled_while_the_phone_is_away(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    lab.on["agent_event"] = lambda: lab.bench.phone.offline(60)
    lab.on["connection_lost"] = lab.cancelled.set
    outcome = lab.run(limits=Limits(poll=0.02, unreachable=60))
    assert outcome.failure_kind == FailureKind.CANCELLED
    assert "not reached" in outcome.failure_message


def test_connections_that_lead_nowhere_are_given_up(lab: Lab) -> None:
    class Dies:
        def __getattr__(self, name: str) -> Callable[..., object]:
            raise PhoneUnreachable("gone again")

        def __enter__(self) -> Dies:
            return self

        def __exit__(self, *_: object) -> None: ...

    lab.connect = lambda device: Dies()  # type: ignore[assignment,return-value]
    outcome = lab.run(limits=Limits(poll=0.02, first_contact=0.3))
    assert outcome.failure_kind == FailureKind.UNREACHABLE
    assert outcome.connection_losses > 1


def test_unauthorized_is_not_retried(lab: Lab) -> None:
    tries: list[Device] = []

    def refuse(device: Device) -> Transport:
        tries.append(device)
        raise PhoneUnauthorized("the phone does not trust us", "tap Allow")

    lab.connect = refuse
    assert lab.run().failure_kind == FailureKind.UNAUTHORIZED
    assert len(tries) == 1


def test_a_missing_pack_is_an_outcome(lab: Lab) -> None:
    lab.agent(WAITS, ok(ATTEMPT))
    order = AttemptOrder(ATTEMPT, lab.bench.device, job(ATTEMPT, target_pack="ab" * 32), 30)
    outcome = lab.run(order)
    assert outcome.failure_kind == FailureKind.PACK_CORRUPT
    assert "no pack ab" in outcome.failure_message
