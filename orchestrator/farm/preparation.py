"""Make a phone ready for one attempt: orphans gone, packs there and verified, settings fixed, the agent started."""

from __future__ import annotations

import json

from orchestrator.entities import AttemptOrder
from orchestrator.farm import job_folder, quiet
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.parcel import PackStore, Parcel, pack_parcel
from orchestrator.farm.provisioning import Report, forget_verified, provision
from orchestrator.farm.runtimes import runtime_for
from orchestrator.settings import Settings


def prepare_and_start(
    phone: Transport, order: AttemptOrder, store: PackStore, settings: Settings, report: Report
) -> None:
    """Idempotent: cut anywhere, it goes on where it was, and the agent is started once. Raises PhoneError, ModelError
    for a pack that the store does not have, or has damaged."""
    root = order.device.root
    runtime = runtime_for(order.device.facts, settings.home)
    packs = packs_of(order, store)
    job_folder.sweep(phone, root, keep=order.attempt_id)
    quiet.put_back(phone, root, keep=order.attempt_id)
    provision(phone, root, [runtime, *packs], report)
    quiet.make_quiet(phone, root, order.attempt_id, order.deadline_s)
    job_folder.start(phone, root, order.attempt_id, json.dumps(order.job).encode(), runtime.hash)


def distrust_packs(phone: Transport, order: AttemptOrder, store: PackStore) -> None:
    """The agent found a pack corrupt: the next attempt hashes its chunks on the phone and pushes the bad ones again."""
    forget_verified(phone, order.device.root, packs_of(order, store))


def packs_of(order: AttemptOrder, store: PackStore) -> list[Parcel]:
    """Target and draft; one when a model drafts for itself."""
    hashes = dict.fromkeys(h for h in (order.job["target_pack"], order.job.get("draft_pack")) if h)
    return [pack_parcel(store, pack_hash) for pack_hash in hashes]
