"""Is the phone really there? A nonce that comes back in time says so; a list of devices does not."""

from __future__ import annotations

import secrets

from orchestrator.errors import PhoneUnreachable
from orchestrator.farm.adb.contract import Transport

ANSWER_S = 5.0


def probe(phone: Transport, timeout_s: float = ANSWER_S) -> None:
    """Raises PhoneUnreachable unless the phone's own shell echoes a fresh nonce within `timeout_s`."""
    nonce = secrets.token_hex(8)
    result = phone.shell(f"echo {nonce}", timeout_s)
    if result.exit_code != 0 or result.stdout.strip() != nonce:
        raise PhoneUnreachable(
            f"the phone's shell answered {result.stdout.strip()[:80]!r} (exit code {result.exit_code}) to an echo",
            "Restart the phone and connect again.",
        )
