"""Makes this machine a host of another's farm: asks the farm what it is, keeps what it tells, starts a Ray node."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict

from sqlalchemy.engine import make_url

from orchestrator import wiring
from orchestrator.errors import FarmError, RegistryError
from orchestrator.farm_card import FarmCard
from orchestrator.ray_runtime import card_board
from orchestrator.ray_token import find_token, keep_token
from orchestrator.run_files import write_json
from orchestrator.service import state
from orchestrator.service.down import down
from orchestrator.service.up import ensure_up, knock
from orchestrator.settings import Settings, joined_path, load

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")  # what Ray takes as a label


def join(settings: Settings, address: str, report: Callable[[str], None]) -> bool:
    """False: it was up as that farm's host already. Raises FarmError, UsageError, RegistryError; then nothing is
    left."""
    if settings.joined == address:
        return ensure_up(settings, report)
    _check_free(settings)
    knock(address, card_board.START)
    token = find_token(settings, address)
    report(f"asking the farm at {address}")
    card = card_board.read(address, token)
    card.check(FarmCard.of(settings), address)
    told = {"registry_url": card.registry_url, "tracking_uri": card.tracking_uri}
    joined = load({"address": address, "host": settings.host} | told)  # what the environment names otherwise stays so
    _check_registry(joined)
    keep_token(settings, token)
    write_json(joined_path(settings.home), _record(joined))
    try:
        return ensure_up(joined, report)
    except BaseException:
        joined_path(settings.home).unlink(missing_ok=True)
        raise


def leave(settings: Settings, report: Callable[[str], None]) -> bool:
    """End what `join` started and forget the farm; attempts on its phones go on. False: no farm was joined."""
    if not settings.joined:
        return False
    down(settings, report)
    joined_path(settings.home).unlink(missing_ok=True)
    return True


def _check_free(settings: Settings) -> None:
    if not NAME.fullmatch(settings.host):
        raise FarmError(
            f"this machine's name {settings.host!r} cannot be a farm host's",
            "Give it one of letters, digits, dots and dashes: LEVER_HOST=NAME lever host join …",
        )
    if settings.joined:
        raise FarmError(f"this machine is a host of the farm at {settings.joined}", "Leave it first: lever host leave")
    service = state.read(settings)
    if service is not None and service.process() is not None:
        raise FarmError(f"a farm of its own is up at {settings.home}", "End it first: lever down")


def _check_registry(settings: Settings) -> None:
    if not wiring.is_reachable(settings):
        raise FarmError(
            f"the farm's registry is a file of its first machine: {settings.registry_url}",
            "Give the farm a PostgreSQL that every host reaches: LEVER_REGISTRY_URL=postgresql://… lever up there.",
        )
    try:
        with closing(wiring.open_registry(settings)) as registry:
            registry.devices()
    except RegistryError as error:
        where = make_url(settings.registry_url).render_as_string(hide_password=True)
        raise RegistryError(
            f"the farm's registry at {where} does not answer from here: {error.message}",
            "Set LEVER_REGISTRY_URL to how this machine reaches that database, then join again.",
        ) from error


def _record(settings: Settings) -> dict[str, str]:
    kept = asdict(settings)
    return {"address": settings.joined} | {name: str(kept[name]) for name in ("registry_url", "tracking_uri", "host")}
