"""Is the phone really there, and fit to work? A nonce that comes back in time says so; a list of devices does not."""

from __future__ import annotations

import secrets

from orchestrator.entities import Device
from orchestrator.errors import CommandFailed, LeverError, PhoneUnauthorized, PhoneUnreachable, WrongPhone
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.connecting import Connect
from orchestrator.farm.health_rules import Sighting
from orchestrator.farm.sensors import read_vitals

ANSWER_S = 5.0


def probe(phone: Transport) -> None:
    """Raises PhoneUnreachable unless the phone's own shell echoes a fresh nonce within ANSWER_S."""
    nonce = secrets.token_hex(8)
    result = phone.shell(f"echo {nonce}", ANSWER_S)
    if result.exit_code != 0 or result.stdout.strip() != nonce:
        raise PhoneUnreachable(
            f"the phone's shell answered {result.stdout.strip()[:80]!r} (exit code {result.exit_code}) to an echo",
            "Restart the phone and connect again.",
        )


class Lookout:
    """Looks at one phone again and again over a connection that is kept; not for two threads at once."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._phone: Transport | None = None

    def look(self, device: Device, vitals: bool) -> Sighting:
        """Never raises. Takes up to the deadlines of connecting and answering."""
        try:
            if not self._kept_answers():
                self._phone = self._connect(device)
                probe(self._phone)
            assert self._phone is not None, "it answered"
            return Sighting(vitals=read_vitals(self._phone) if vitals else None)
        except PhoneUnauthorized as error:
            return self._gone(Sighting(error.message, unauthorized=True))
        except WrongPhone as error:
            return self._gone(Sighting(error.message, clear=True))
        except (LeverError, OSError) as error:  # OSError: this host cannot even start its virtual phone
            return self._gone(Sighting(str(error)))

    def close(self) -> None:
        if self._phone is not None:
            self._phone.close()
            self._phone = None

    def _kept_answers(self) -> bool:
        """A connection that died while nobody used it is no sign of absence: the phone gets a new one at once."""
        if self._phone is None:
            return False
        try:
            probe(self._phone)
        except (PhoneUnreachable, CommandFailed):
            self.close()
            return False
        return True

    def _gone(self, sighting: Sighting) -> Sighting:
        self.close()
        return sighting
