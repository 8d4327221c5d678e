"""How ggml's threads wait for each other at each operation's end; libgomp reads it when it is loaded, so call first.

A sleeping thread is woken in some ten microseconds, hundreds of times a pass: a draft pass over one token took 21 ms
instead of 8. A spinning one takes the core from the flash reader and whoever else runs: on a busy machine passes took
twice as long, and 10 to 80 times with libgomp's own, longer spinning. So threads spin, briefly, where cores are free.
"""

from __future__ import annotations

import os

SPINS = 20_000  # some 50 µs, longer than a barrier lasts while every thread has a core
BUSY = 2.0  # runnable threads a core, the agent's before this one and its reader's among them


def set_waiting() -> None:
    """For libraries that this process loads later, unless the environment has decided."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if _cores_are_free():
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def waiting() -> str:
    """spin | sleep, as results tell it."""
    return "spin" if int(os.environ.get("GOMP_SPINCOUNT", "0")) else "sleep"


def _cores_are_free() -> bool:
    try:
        load = os.getloadavg()[0]
    except OSError:  # a phone that does not let its shell read it
        return True
    return load <= BUSY * (os.cpu_count() or 1)
