"""What the registry promises about events and its outbox, held against every backend."""

from __future__ import annotations

from orchestrator.entities import (
    FarmEvent,
)
from orchestrator.registry.contract import Registry
from tests.fakes import farm


def test_events_are_in_order_and_of_one_sweep(registry: Registry) -> None:
    submission = farm.submit(registry, "t1", sweep="mine")
    farm.submit(registry, "t2", sweep="other")
    attempt = farm.run(registry, "t1")
    registry.add_events(
        [FarmEvent("progress", trial_id="t1", attempt_id=attempt.attempt_id, data={"n": i}) for i in (1, 2)]
    )
    mine = registry.events(sweep_id="id-mine")
    assert [e.kind for e in mine] == ["sweep_submitted", "attempt_started", "progress", "progress"]
    ids = [e.event_id for e in mine]
    assert ids == sorted(set(ids))
    assert all(e.at for e in mine)
    later = registry.events(submission.event_id, "id-mine", limit=2)
    assert [e.kind for e in later] == ["attempt_started", "progress"]
    assert [e.data.get("n") for e in registry.events(later[-1].event_id, "id-mine")] == [2]
    assert len(registry.events()) == 6
    assert registry.last_event_id() == registry.events()[-1].event_id


def test_the_outbox_keeps_what_is_owed(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", sweep="a")
    farm.submit(registry, "t1", sweep="b")
    farm.finish(registry, "t1", farm.failed, "failed")
    owed = [(i.kind, i.sweep_id, i.trial_id, i.payload) for i in registry.outbox(99)]
    assert owed[:2] == [("sweep", f"id-{s}", None, {"event": "submitted"}) for s in "ab"]
    assert [o for o in owed if o[0] == "trial"] == [("trial", f"id-{s}", "t1", {"state": "failed"}) for s in "ab"]
    assert owed[-1] == ("sweep", "id-b", None, {"event": "finished"})
    delivered = [item.item_id for item in registry.outbox(2)]
    registry.outbox_done(delivered)
    registry.outbox_done(delivered)
    registry.outbox_done([])
    assert len(registry.outbox(99)) == len(owed) - 2


def test_run_ids_are_kept(registry: Registry) -> None:
    assert registry.tracking_run_id("s", "t") is None
    registry.set_tracking_run_id("s", "t", "run1")
    registry.set_tracking_run_id("s", None, "run2")
    registry.set_tracking_run_id("s", "t", "run3")
    assert (registry.tracking_run_id("s", "t"), registry.tracking_run_id("s", None)) == ("run3", "run2")
