"""One attempt on one phone: start it or find it again, follow it over lost connections, bring its outcome home.

A closed connection never ends an attempt. It is over when its result or exit code exists, its process is gone, its
deadline passed or somebody cancels it; or, for us, when the phone could not be reached for too long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_after_delay, stop_when_event_set
from tenacity.wait import wait_random_exponential

from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.errors import LeverError, ModelError, PhoneError, PhoneUnreachable
from orchestrator.farm import job_folder
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.attempt_watch import AttemptCancelled, AttemptWatch, Limits
from orchestrator.farm.collection import collect, failure, failure_kind, log_of
from orchestrator.farm.connecting import Connect
from orchestrator.farm.job_folder import JobState
from orchestrator.farm.parcel import PackStore
from orchestrator.farm.preparation import distrust_packs, prepare_and_start
from orchestrator.settings import Settings


def run_attempt(
    order: AttemptOrder,
    connect: Connect,
    store: PackStore,
    settings: Settings,
    report: Callable[[Progress], None],
    cancelled: threading.Event,
    limits: Limits | None = None,
) -> AttemptOutcome:
    """Blocks until the attempt is over. Failures are outcomes, not exceptions; `report` gets Progress of the kinds
    provisioning, agent_event, connection_lost and reattached, from this thread."""
    watch = AttemptWatch(order, report, cancelled, limits or Limits())
    try:
        outcome = _over_connections(watch, connect, store, settings)
    except AttemptCancelled as error:
        outcome = failure(order, FailureKind.CANCELLED, error.message)
    except PhoneError as error:
        outcome = failure(order, failure_kind(error.kind), _with_remedy(error))
    except ModelError as error:  # this host's copy: no other phone would get a better one
        outcome = failure(order, FailureKind.PACK_CORRUPT, _with_remedy(error))
    except LeverError as error:
        outcome = failure(order, FailureKind.PROVISIONING, _with_remedy(error))
    return replace(outcome, attempt_wall_s=watch.age(), connection_losses=watch.losses)


def stop_attempt(order: AttemptOrder, connect: Connect) -> None:
    """End the attempt's process group on the phone; its folder stays. Raises PhoneError."""
    with connect(order.device) as phone:
        job_folder.stop(phone, order.device.root, order.attempt_id)


def forget_attempt(order: AttemptOrder, connect: Connect) -> None:
    """Remove the job folder, once its outcome is recorded. Raises PhoneError."""
    with connect(order.device) as phone:
        job_folder.forget(phone, order.device.root, order.attempt_id)


def _with_remedy(error: LeverError) -> str:
    return ". ".join(filter(None, (error.message, error.remedy)))


def _over_connections(watch: AttemptWatch, connect: Connect, store: PackStore, settings: Settings) -> AttemptOutcome:
    while True:
        with _connected(watch, connect) as phone:
            try:
                return _on_connection(watch, phone, store, settings)
            except PhoneUnreachable as error:
                watch.lost(error)


def _connected(watch: AttemptWatch, connect: Connect) -> Transport:
    """A connection, tried with growing pauses while there is patience. Raises PhoneUnreachable, AttemptCancelled."""
    attempts = Retrying(
        retry=retry_if_exception_type(PhoneUnreachable),
        wait=wait_random_exponential(multiplier=0.2, max=watch.limits.longest_backoff),
        stop=stop_after_delay(watch.patience()) | stop_when_event_set(watch.cancelled),
        sleep=sleep_using_event(watch.cancelled),
        reraise=True,
    )
    try:
        return attempts(connect, watch.order.device)
    except PhoneUnreachable:
        if watch.cancelled.is_set():
            raise AttemptCancelled("cancelled, but not reached: its agent is swept at its next attempt") from None
        raise


def _on_connection(watch: AttemptWatch, phone: Transport, store: PackStore, settings: Settings) -> AttemptOutcome:
    order = watch.order
    state = job_folder.look(phone, order.device.root, order.attempt_id)
    if state.started or watch.losses:
        watch.tell("reattached", started=state.started)
    if not state.started:
        prepare_and_start(phone, order, store, settings, watch.provisioned)
    outcome = _follow(watch, phone)
    if outcome.failure_kind in (FailureKind.PACK_CORRUPT, FailureKind.NAN_LOGITS):
        distrust_packs(phone, order, store)
    return outcome


def _follow(watch: AttemptWatch, phone: Transport) -> AttemptOutcome:
    order = watch.order
    while True:
        state = job_folder.look(phone, order.device.root, order.attempt_id)
        for event in watch.tail.new(phone):
            watch.tell("agent_event", **event)
        watch.seen(state)
        if (outcome := _verdict(watch, phone, state)) is not None:
            return outcome
        watch.rest()


def _verdict(watch: AttemptWatch, phone: Transport, state: JobState) -> AttemptOutcome | None:
    """None: it goes on."""
    order = watch.order
    if watch.cancelled.is_set():
        kind, message = FailureKind.CANCELLED, "the attempt was cancelled"
    elif watch.over(state):
        job_folder.stop(phone, order.device.root, order.attempt_id)
        return collect(phone, order, state)
    elif watch.late():
        kind, message = FailureKind.DEADLINE, f"the attempt did not end within {order.deadline_s:g} s"
    else:
        return None
    job_folder.stop(phone, order.device.root, order.attempt_id)
    return failure(order, kind, message, log_of(phone, order))
