"""What goes wrong inside a backend; stream_transport.py names the phone and says it in the farm's terms."""

from __future__ import annotations


class LinkDown(Exception):
    """The phone hung up, or never answered; str() says how."""


class DeadlinePassed(Exception):
    """The operation's time is up."""


class KeyNotAllowed(Exception):
    """The phone waits for somebody to allow the key in the file that str() names."""


class NotAdb(Exception):
    """What answers does not speak ADB; str() says what it said."""


class Refused(Exception):
    """The phone answered no; str() is its reason."""


class TlsWanted(Exception):
    """What answers is wireless debugging: it speaks TLS with hosts that it was paired with."""
