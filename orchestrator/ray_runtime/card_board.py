"""Where a farm's card hangs: in the key-value store of the Ray that it works in. Run as a program it reads the card of
the farm at an address, in a process of its own, since Ray's client may abort the process or wait for minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from device_agent.protocol import WireError, from_json
from orchestrator.errors import FarmError
from orchestrator.farm_card import FarmCard

SPACE, KEY = b"lever-farm", b"card"
ANSWER_S = 30.0  # importing Ray takes up to 5 s of it on a busy machine
NO_TOKEN, NO_CARD = 3, 4  # exit codes


def hang_up(card: FarmCard, gcs_address: str) -> None:
    """For a process that is connected to that Ray; a farm that was there before is replaced."""
    _client(gcs_address).internal_kv_put(KEY, json.dumps(asdict(card)).encode(), True, SPACE)


def read(address: str, token: str) -> FarmCard:
    """Raises FarmError when no farm answers there, or does not take the token."""
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator.ray_runtime.card_board", address],
            env=theirs | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token},
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FarmError(f"what answers at {address} is not a farm: it does not speak Ray", START) from None
    if done.returncode == NO_TOKEN:
        raise FarmError(
            f"the farm at {address} does not take this authentication token",
            "Copy LEVER_HOME/ray_token of its first machine again, or set RAY_AUTH_TOKEN to what is in it.",
        )
    if done.returncode == NO_CARD:
        raise FarmError(f"the Ray at {address} has no farm in it, or one of a version that takes no hosts", START)
    try:
        return from_json(FarmCard, json.loads(done.stdout))
    except (ValueError, WireError):
        raise FarmError(f"the farm at {address} is of another version: it answers with another card", SAME) from None


START = "Start one there, on its first machine: lever up --listen HOST:PORT"
SAME = "Install the same version of Lever Farm here and there."


def _client(address: str) -> Any:
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # a compiled module, without stubs

    return GcsClient(address=address)


def _tell(address: str) -> int:
    from ray.exceptions import AuthenticationError

    try:
        found = _client(address).internal_kv_get(KEY, SPACE, timeout=10)
    except AuthenticationError:
        return NO_TOKEN
    if found is None:
        return NO_CARD
    sys.stdout.write(found.decode())
    return 0


if __name__ == "__main__":
    sys.exit(_tell(sys.argv[1]))
