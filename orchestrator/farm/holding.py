"""Keep a phone for something that is no trial: nothing starts there meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from orchestrator.entities import Attempt, Device, DeviceState
from orchestrator.errors import ClaimLost, FarmError
from orchestrator.registry.contract import Registry

LEASE_S = 60.0
RENEW_S = 15.0
IN_USE = (DeviceState.READY, DeviceState.BUSY)  # nothing starts on a phone in another state


@contextmanager
def held(device: Device, registry: Registry, purpose: str) -> Iterator[tuple[Attempt, threading.Event]]:
    """The phone is ours within the block; the event is set when that is over before. Raises FarmError when it is not
    free."""
    try:
        reservation = registry.reserve(device.name, f"{purpose}@{device.host}", LEASE_S)
    except ClaimLost as error:
        raise FarmError(f"phone {device.name} is not free: {error.message}", "Wait until it is, then again.") from error
    done, lost = threading.Event(), threading.Event()
    renewing = threading.Thread(target=_renew, args=(registry, reservation, done, lost), daemon=True)
    renewing.start()
    try:
        yield reservation, lost
    finally:
        done.set()
        renewing.join()
        registry.release(reservation)


@contextmanager
def undisturbed(device: Device, registry: Registry, purpose: str) -> Iterator[None]:
    """Nothing starts on the phone within the block. Raises FarmError when it is not free."""
    with held(device, registry, purpose) if device.state in IN_USE else nullcontext():
        yield


def _renew(registry: Registry, reservation: Attempt, done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(RENEW_S):
        if registry.renew([reservation], LEASE_S):
            lost.set()
            return
