"""The faults that a virtual phone knows, for its control socket and for whoever lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    what: str
    number: str = ""  # what its number means; empty: it takes none
    default: float | None = 0.0  # None: the number has to be given
    lasts: bool = False  # until it is cleared


FAULTS: dict[str, Fault] = {
    "cut": Fault("every connection ends at once; jobs go on"),
    "offline": Fault("cut, and connections are refused for a while", "a number of seconds", None),
    "stall": Fault("connections stay, and nothing is answered", lasts=True),
    "slow": Fault("the link carries few bytes", "kB/s", 100.0, lasts=True),
    "garbage": Fault("noise instead of ADB", lasts=True),
    "lose-ends": Fault("commands run, but the connection dies before their output", "how many commands", 1.0),
    "unauthorized": Fault("all keys are revoked; hosts ask and wait", lasts=True),
    "kill-agent": Fault("the running agent is killed (SIGKILL)"),
    "vanish-agent": Fault("the agent is killed together with the shell that would note its exit code"),
    "oom-kill": Fault("the agent is killed, and the kernel counts an out-of-memory kill"),
    "restart-adbd": Fault("adbd restarts and takes detached jobs along", "seconds away", 0.5),
    "reboot": Fault("everything ends, and the phone is away for a while", "seconds away", 2.0),
    "disk-full": Fault("storage takes no more bytes", lasts=True),
    "read-only": Fault("storage cannot be written, by what starts from now on", lasts=True),
    "hot": Fault("it is so hot, whatever it does", "°C", 50.0, lasts=True),
    "low-battery": Fault("the battery is so low", "percent", 3.0, lasts=True),
    "charging": Fault("a charger is plugged in", lasts=True),
    "faked-battery": Fault("the battery service shows a faked level (UPDATES STOPPED)", "percent", 100.0, lasts=True),
    "faked-thermal": Fault("the thermal service's status is overridden", "a status", 0.0, lasts=True),
    "denied-gauge": Fault("the kernel's battery gauge may not be read", lasts=True),
    "wrong-serial": Fault("it calls itself by another serial number", lasts=True),
}
