"""Phones of an adb server: what it lists, and pairing for wireless debugging."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import PhoneUnreachable, UsageError
from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, KeyNotAllowed, LinkDown, Refused
from orchestrator.farm.adb.server_client import ServerClient

LIST_S = 5.0
PAIR_S = 30.0


@dataclass(frozen=True)
class ListedPhone:
    """A line of `adb devices -l`; empty is what the server does not know (yet)."""

    serial: str
    state: str  # device, unauthorized, authorizing, offline, connecting, no permissions, …
    product: str = ""
    model: str = ""
    device: str = ""
    usb: str = ""  # the bus and port that it hangs on; empty for phones over TCP


def discover(server: ServerClient) -> list[ListedPhone]:
    """Raises PhoneUnreachable when the server does not answer."""
    deadline = Deadline()
    deadline.allow(LIST_S)
    try:
        return list_phones(server, deadline)
    except (LinkDown, DeadlinePassed) as error:
        raise PhoneUnreachable(
            f"the adb server at port {server.port} does not answer: {error}", "restart it: adb kill-server"
        ) from error


def list_phones(server: ServerClient, deadline: Deadline) -> list[ListedPhone]:
    """Raises LinkDown, DeadlinePassed."""
    return [parsed_line(line) for line in server.ask("host:devices-l", deadline).splitlines() if line.strip()]


def pair(server: ServerClient, endpoint: str, code: str) -> str:
    """Pair with a phone that shows `code` and HOST:PORT under Wireless debugging → Pair device with pairing code;
    returns what the server says. Raises UsageError for a malformed code, PhoneUnreachable when it did not work.

    The port for pairing is another one than that for connecting, and both change: the phone shows them."""
    if not (code.isascii() and code.isdecimal() and len(code) == 6):
        raise UsageError(f"pairing code {code!r} is not six digits", "type the code that the phone shows")
    deadline = Deadline()
    deadline.allow(PAIR_S)
    try:
        answer = server.ask(f"host:pair:{code}:{endpoint}", deadline).strip()
    except (LinkDown, DeadlinePassed, Refused, KeyNotAllowed) as error:
        answer = str(error) or f"no answer within {PAIR_S:g} s"
    if not answer.startswith("Successfully paired"):
        raise PhoneUnreachable(
            f"pairing with {endpoint} failed: {answer}",
            "keep the phone's pairing dialog open and type the HOST:PORT and the code that it shows; both change",
        )
    return answer


def parsed_line(line: str) -> ListedPhone:
    """`SERIAL STATE… usb:1-1 product:P model:M device:D transport_id:1`; a state may hold spaces and a remark."""
    serial, _, rest = line.partition(" ")
    words = rest.split()
    named = dict(word.split(":", 1) for word in words if ":" in word and not word.startswith("http"))
    state = " ".join(word for word in words if ":" not in word).partition(" (")[0]
    return ListedPhone(
        serial,
        state,
        named.get("product", ""),
        named.get("model", ""),
        named.get("device", ""),
        named.get("usb", ""),
    )
