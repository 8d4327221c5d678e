"""Why an agent ended without a result: what its job folder and the phone's kernel tell, compared with before it began.

Quirks: `ro.boottime.*` and uptimes move with clocks, the boot id does not. adbd's restart takes along everything that
was started through it; init tells its pid. The kernel counts whom it killed for memory, not whom; our agent runs alone.
An empty exit code was noted on a full disk, whether it still is full or not.
"""

from __future__ import annotations

from orchestrator.entities import FailureKind
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.delivery import NO_ROOM
from orchestrator.farm.provisioning import free_bytes

COMMAND_S = 20.0
FULL = 1 << 20  # bytes: with less than that left a phone is full
# Run when a job begins, and again when its agent is gone.
SIGNS = (
    'echo "boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"; '
    'echo "adbd $(getprop init.svc_debug_pid.adbd 2>/dev/null)"; grep -s "^oom_kill " /proc/vmstat; :'
)
RAN_FULL = "its storage ran full during the run"
KILLED = {137: "killed (SIGKILL)", 143: "asked to end (SIGTERM)"}
CRASHED = {
    132: "an instruction that this processor does not have (SIGILL)",
    134: "an abort (SIGABRT)",
    135: "a bus error (SIGBUS)",
    136: "an arithmetic error (SIGFPE)",
    139: "a segmentation fault (SIGSEGV)",
}
SHELLS_WORDS = {"", "Segmentation fault", "Illegal instruction", "Aborted", "Abort", "Bus error", "Killed"}
OUT_OF_MEMORY = ("insufficient memory", "failed to allocate", "MemoryError", "Cannot allocate memory")
REMEDIES = {
    FailureKind.REBOOTED: "See why it restarts: heat, a weak battery or cable; it is used again when it answers.",
    FailureKind.ADBD_RESTARTED: "Leave its developer options alone while trials run; they are tried again.",
    FailureKind.DISK_FULL: "Free some space there, e.g.: lever phones gc",
    FailureKind.OUT_OF_MEMORY: "Lower engine.memory.dram_budget_mb, or close what else runs on the phone.",
    FailureKind.AGENT_KILLED: "See what else runs on the phone: somebody or something there ended it.",
    FailureKind.AGENT_VANISHED: "See what else runs on the phone: somebody or something there ended it.",
    FailureKind.AGENT_CRASHED: "Run it here for comparison: lever generate; if it crashes too, please report it.",
}


def cause(phone: Transport, root: str, job: str, exit_code: int | None, log: str) -> tuple[FailureKind, str]:
    """Of the job folder `job`, with what to do about it in the message. Raises PhoneUnreachable: ask again."""
    return _advised(*_cause(phone, root, job, exit_code, log))


def disk_full() -> tuple[FailureKind, str]:
    """What is told of an agent whose phone ran full."""
    return _advised(FailureKind.DISK_FULL, RAN_FULL)


def _advised(kind: FailureKind, message: str) -> tuple[FailureKind, str]:
    return kind, ". ".join(filter(None, (message, REMEDIES.get(kind, ""))))


def _cause(phone: Transport, root: str, job: str, code: int | None, log: str) -> tuple[FailureKind, str]:
    lost = "[ -e rc ] && [ ! -s rc ] && echo 'rc lost'"
    seen = phone.shell(f"cd {quote(job)} && {{ cat signs 2>/dev/null; {lost}; }}; echo '>'; {SIGNS}", COMMAND_S)
    before, _, now = seen.stdout.partition(">\n")
    if _moved("boot", before, now):
        return FailureKind.REBOOTED, "the phone restarted during the run"
    if any(words in log for words in NO_ROOM) or _value("rc", before) or is_full(phone, root):
        return FailureKind.DISK_FULL, RAN_FULL
    if code is None and _moved("adbd", before, now):
        return FailureKind.ADBD_RESTARTED, "its adbd restarted during the run and took the agent along"
    if (code is None or code in KILLED) and _moved("oom_kill", before, now):
        return FailureKind.OUT_OF_MEMORY, "the phone's kernel killed the agent, out of memory"
    if code is None:
        return FailureKind.AGENT_VANISHED, "the agent's process is gone without a word"
    if code in KILLED:
        return FailureKind.AGENT_KILLED, f"the agent was {KILLED[code]}"
    last = ([line for line in log.splitlines() if line.strip() not in SHELLS_WORDS] or ["it printed nothing"])[-1][:300]
    if any(words in log for words in OUT_OF_MEMORY):
        return FailureKind.OUT_OF_MEMORY, f"the agent got no more memory: {last}"
    if code in CRASHED:
        return FailureKind.AGENT_CRASHED, f"the agent crashed, by {CRASHED[code]}: {last}"
    return FailureKind.ENGINE_ERROR, f"the agent ended with exit code {code}: {last}"


def _moved(sign: str, before: str, now: str) -> bool:
    """Whether it is another one; a phone that does not tell moves nothing."""
    old, new = (_value(sign, text) for text in (before, now))
    return bool(old) and bool(new) and old != new


def _value(sign: str, text: str) -> str:
    return next((line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{sign} ")), "")


def is_full(phone: Transport, root: str) -> bool:
    """Whether the phone's storage takes no more, as far as df tells."""
    result = phone.shell(f"df -P -k {quote(root)}", COMMAND_S)
    return result.exit_code == 0 and free_bytes(result.stdout) < FULL
