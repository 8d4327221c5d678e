"""Settings that are fixed on a phone while an attempt runs, and put back whatever happens.

`quiet/restore` under our root holds the commands that put back what the owner had; it is written before the first
change, and never again while it is there. A guard on the phone, detached from us and from the job, runs it once the job
is over or its time is up. What takes the guard along (a restart of the phone or of adbd) leaves the file, and the next
one to sweep the phone runs it.
"""

from __future__ import annotations

from orchestrator.farm import job_folder
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.provisioning import run

COMMAND_S = 30.0
GRACE_S = 60.0  # after the job's deadline, which the agent itself keeps
SETTINGS = {
    "screen_off_timeout": 86_400_000,  # ms: the screen stays as it is found; a change of it changes clocks and power
    "screen_brightness_mode": 0,  # by hand: light that falls on the phone is no part of a measurement
    "screen_brightness": 20,  # of 255
}

PUT_BACK = "[ -s restore ] && sh ./restore >/dev/null 2>&1; rm -f restore attempt pid born"

RESTORE = f"""
[ "$(cat attempt 2>/dev/null)" = ATTEMPT ] && exit 0
{job_folder.PROBES}
finish; {PUT_BACK}
"""

QUIET = f"""
{job_folder.PROBES}
if [ ! -s restore ]; then
for s in {" ".join(SETTINGS)}; do v=$(settings get system $s 2>/dev/null) || continue
case $v in null) echo "settings delete system $s #";; ""|*[!0-9]*) ;; *) echo "settings put system $s $v";; esac
done >restore.new && mv restore.new restore
fi
[ -s restore ] || exit 0
echo ATTEMPT >attempt
leader || {{ trap "" HUP; setsid sh -c GUARD </dev/null >/dev/null 2>&1 & }}
{"; ".join(f'grep -q " {name} " restore && settings put system {name} {value}' for name, value in SETTINGS.items())}
:
"""

# A job has a minute to start. Then it is over with its exit code, its folder or its first process. Where another guard
# has taken over, the settings are its own to put back.
GUARD = f"""
cut -d" " -f22 /proc/$$/stat >born && echo $$ >pid
{job_folder.PROBES}
now=$(date +%s); end=$((now + SECONDS)); late=$((now + 60)); seen=; here=$PWD; job=$PWD/../jobs/ATTEMPT
over() {{ [ -d started ] && seen=1; [ -f rc ] && return 0
if [ "$seen" ]; then [ ! -d started ] || {{ [ -s pid ] && ! leader; }}; else [ $now -ge $late ]; fi; }}
while [ $now -lt $end ]; do
if cd "$job" 2>/dev/null; then over && break; elif [ "$seen" ] || [ $now -ge $late ]; then break; fi
sleep 1; now=$(date +%s); done
cd "$here" && [ "$(cat pid 2>/dev/null)" = $$ ] || exit 0
{PUT_BACK}
"""


def make_quiet(phone: Transport, root: str, attempt_id: str, seconds: float) -> None:
    """Fix the settings for an attempt that is about to start, for so long at most. A phone that lets nobody change a
    setting keeps it."""
    guard = _named(GUARD, attempt_id).replace("SECONDS", str(round(seconds + GRACE_S)))
    script = _named(QUIET, attempt_id).replace("GUARD", quote(guard))
    run(phone, f"mkdir -p {_folder(root)} && cd {_folder(root)} || exit 1{script}", COMMAND_S)


def put_back(phone: Transport, root: str, keep: str) -> None:
    """What an earlier attempt has left changed, unless `keep` is the one. Nothing happens when there is nothing."""
    run(phone, f"cd {_folder(root)} 2>/dev/null || exit 0{_named(RESTORE, keep)}", COMMAND_S)


def _folder(root: str) -> str:
    return quote(f"{root}/quiet")


def _named(script: str, attempt_id: str) -> str:
    return script.replace("ATTEMPT", quote(attempt_id))
