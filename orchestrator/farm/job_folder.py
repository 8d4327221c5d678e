"""Shell on one job folder of a phone: start the agent detached, look at it, stop it, sweep what others left.

Everything is said relative to the job folder. The agent's shell is the leader of its own process group; `pid` and
`born` (its start time, field 22 of /proc/PID/stat) tell it from a later process with the same number. `started` is a
folder since mkdir succeeds only once: the same start command twice runs the agent once.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.agent_end import SIGNS
from orchestrator.farm.delivery import full_disk_named
from orchestrator.farm.provisioning import run

COMMAND_S = 20.0
STOP_S = 45.0

# leader: the group's first process lives. group: somebody in it lives, and the number did not go to a stranger.
PROBES = """
leader() { p=; t=; s=; b=; [ -f pid ] && read -r p <pid; [ -f born ] && read -r t <born; [ -n "$p" ] || return 1
[ -r "/proc/$p/stat" ] && read -r line <"/proc/$p/stat" 2>/dev/null && set -- $line && s=$3 && b=${22}
[ -n "$b" ] && [ "$b" = "$t" ] && [ "$s" != Z ]; }
group() { leader || { [ -n "$p" ] && { [ -z "$s" ] || [ "$b" = "$t" ]; }; } || return 1
kill -0 -"$p" 2>/dev/null; }
finish() { group || return 0
kill -TERM -"$p" 2>/dev/null; i=0; while [ $i -lt 30 ] && group; do sleep 0.1; i=$((i+1)); done
group && kill -KILL -"$p" 2>/dev/null; return 0; }
"""

LOOK = """
[ -d started ] || { echo new; exit 0; }
[ -s pid ] && echo pid
leader && echo alive
[ -f rc ] && echo "rc $(cat rc)"
[ -f result.json ] && echo result
echo "age $(( $(date +%s) - $(stat -c %Y started) ))"
"""

START = """
[ -d started ] && exit 0
mv -f spec.json.new spec.json || exit 1
{ SIGNS; } >signs
[ -s signs ] || { echo "signs: No space left"; exit 1; }
mkdir started || exit 1
trap "" HUP
setsid sh -c 'cut -d" " -f22 /proc/$$/stat >born && echo $$ >pid && sh "$1" run "$PWD"
echo $? >rc.new; mv rc.new rc' agent AGENT_PATH >log 2>&1 </dev/null &
"""


@dataclass(frozen=True)
class JobState:
    """What a look at the folder says, seen in this order: with a pid, not alive and neither exit code nor result, there
    will never be any."""

    started: bool = False
    has_pid: bool = False
    alive: bool = False
    exit_code: int | None = None
    has_result: bool = False
    age_s: float = 0.0  # since the start, by the phone's clock


def folder(root: str, attempt_id: str) -> str:
    return f"{root}/jobs/{attempt_id}"


def look(phone: Transport, root: str, attempt_id: str) -> JobState:
    """One round trip."""
    job = quote(folder(root, attempt_id))
    output = run(phone, f"cd {job} 2>/dev/null || {{ echo new; exit 0; }}{PROBES}{LOOK}", COMMAND_S)
    said = {key: value for key, _, value in (line.partition(" ") for line in output.splitlines())}
    code = said.get("rc", "").strip()
    return JobState(
        started="new" not in said,
        has_pid="pid" in said,
        alive="alive" in said,
        exit_code=int(code) if code.isdigit() else None,
        has_result="result" in said,
        age_s=float(said.get("age", 0)),
    )


def start(phone: Transport, root: str, attempt_id: str, spec: bytes, runtime_hash: str) -> None:
    """Write spec.json and start the agent; a second call finds the first one's agent and leaves it alone."""
    job = folder(root, attempt_id)
    run(phone, f"mkdir -p {quote(job)}", COMMAND_S)
    with full_disk_named():
        phone.push_bytes(spec, f"{job}/spec.json.new", COMMAND_S)
    script = START.replace("SIGNS", SIGNS).replace("AGENT_PATH", quote(f"../../runtime/{runtime_hash}/agent"))
    run(phone, f"cd {quote(job)} || exit 1{script}", COMMAND_S)


def stop(phone: Transport, root: str, attempt_id: str) -> None:
    """End the whole process group: asked first, killed after 3 s. Nothing happens when it is gone."""
    run(phone, f"cd {quote(folder(root, attempt_id))} 2>/dev/null || exit 0{PROBES}finish", STOP_S)


def forget(phone: Transport, root: str, attempt_id: str) -> None:
    """Remove the folder, and whatever still runs in it."""
    job = quote(folder(root, attempt_id))
    run(phone, f"cd {job} 2>/dev/null || exit 0{PROBES}finish\ncd .. && rm -rf {quote(attempt_id)}", STOP_S)


def sweep(phone: Transport, root: str, keep: str) -> list[str]:
    """End and remove every other job under our root: a phone runs one attempt at a time, so they are orphans. Returns
    their names."""
    jobs = f"mkdir -p {quote(root)}/jobs && cd {quote(root)}/jobs || exit 1{PROBES}"
    loop = (
        f'for d in *; do [ -d "$d" ] && [ "$d" != {quote(keep)} ] || continue\n'
        '(cd "$d" && finish); rm -rf "./$d" && echo "$d"; done'
    )
    return run(phone, jobs + loop, STOP_S).splitlines()
