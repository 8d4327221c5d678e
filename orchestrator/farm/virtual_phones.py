"""Virtual phones of this farm: one detached process and one folder each, under LEVER_HOME/phones/<name>/."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from device_agent.virtual.profile import profile_names
from orchestrator.errors import FarmError, UnknownName, UsageError
from orchestrator.scheduling.selector import WORDS
from orchestrator.settings import Settings

START_S = 30.0
STOP_S = 10.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def profiles() -> list[str]:
    """Names of the profiles that the virtual phone knows."""
    return profile_names()


def names(settings: Settings) -> list[str]:
    """Virtual phones that were created here, running or not."""
    return sorted(path.parent.name for path in settings.phones.glob("*/virtual.json"))


def profile_of(settings: Settings, name: str) -> str:
    """Raises UnknownName."""
    try:
        return str(json.loads((settings.phones / name / "virtual.json").read_text())["profile"])
    except FileNotFoundError:
        raise UnknownName(
            f"there is no virtual phone {name!r} here", "Run: lever phones register virtual:PROFILE --name " + name
        ) from None


def create(settings: Settings, name: str, profile: str) -> bool:
    """Make the phone's folder; does not start it. False when it was there. Raises UsageError for a bad name, an unknown
    profile and for a phone that has another profile."""
    check_name(name)
    checked_profile(profile)
    if name in names(settings):
        if (existing := profile_of(settings, name)) == profile:
            return False
        raise UsageError(
            f"virtual phone {name!r} exists with profile {existing!r}",
            f"Choose another --name, or run: lever phones retire {name}",
        )
    folder = settings.phones / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "virtual.json").write_text(json.dumps({"name": name, "profile": profile}))
    return True


def checked_profile(profile: str) -> str:
    """Raises UsageError naming the profiles that exist."""
    if profile not in (known := profiles()):
        raise UsageError(
            f"there is no phone profile {profile!r}", f"Profiles: {', '.join(known)}; e.g. virtual:{known[0]}"
        )
    return profile


def check_name(name: str) -> None:
    """Phone names become folder names: raises UsageError for anything but letters, digits and `._-`."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a phone name", "Use letters, digits, dots, dashes and underscores, e.g. desk-3."
        )
    if name in WORDS:
        raise UsageError(f"{name!r} cannot be a phone's name: phones={name} chooses among all", "Choose another name.")


def ensure_running(settings: Settings, name: str) -> str:
    """Start the phone unless it runs; returns its address `tcp:127.0.0.1:PORT`. Safe from several processes at once."""
    with _locked(settings, name):
        return address_of(settings, name) or _start(settings, name, profile_of(settings, name))


def address_of(settings: Settings, name: str) -> str | None:
    """Address of the running phone; None when it does not run."""
    state = _running(settings.phones / name)
    return f"tcp:127.0.0.1:{state['port']}" if state else None


def stop(settings: Settings, name: str) -> None:
    """End the phone's process; its folder stays. Nothing happens when it does not run."""
    with _locked(settings, name):
        if state := _running(settings.phones / name):
            _end(int(state["pid"]))


def remove(settings: Settings, name: str) -> None:
    """Stop the phone and delete its folder with everything that was pushed to it."""
    with _locked(settings, name):  # who keeps phones running must not start it again in between
        if state := _running(settings.phones / name):
            _end(int(state["pid"]))
        shutil.rmtree(settings.phones / name, ignore_errors=True)


def _start(settings: Settings, name: str, profile: str) -> str:
    folder = settings.phones / name
    (folder / "phone.json").unlink(missing_ok=True)
    settings.logs.mkdir(parents=True, exist_ok=True)
    log = settings.logs / f"phone-{name}.log"
    command = [sys.executable, "-P", "-m", "device_agent.virtual", "--root", str(folder)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "--profile", profile, "--name", name],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
        )
    deadline = time.monotonic() + START_S
    while not (address := address_of(settings, name)):
        if (code := process.poll()) is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            what = "did not listen in time" if code is None else f"ended at once with exit code {code}"
            raise FarmError(f"virtual phone {name!r} {what}: {_last_line(log)}", f"Its log: {log}")
        time.sleep(0.02)
    process.returncode = 0  # detached on purpose: we never wait for it
    return address


def _running(folder: Path) -> dict[str, int] | None:
    """phone.json of a live process that serves this very folder; a recycled pid does not count."""
    try:
        state: dict[str, int] = json.loads((folder / "phone.json").read_text())
        process = psutil.Process(int(state["pid"]))
        if not (words := _words(process)):  # it died, or is about to
            _await_end(process)
            return None
        ours = str(folder) in words
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return state if ours else None


def _words(process: psutil.Process) -> list[str]:
    """Its command line; empty for a process that has died and one that is dying."""
    try:
        return process.cmdline()
    except psutil.ZombieProcess:
        return []


def _reap(pid: int) -> None:
    """A phone that this process itself started and that died stays a zombie until somebody asks for it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _end(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.terminate()
        _await_end(process)
        process.kill()
        _await_end(process)


def _await_end(process: psutil.Process) -> None:
    """Returns after STOP_S at the latest; raises NoSuchProcess when it is gone. psutil's own waiting would wait for a
    zombie too, which stays as long as whoever started the phone (a `lever sweep` that goes on, say) does not ask."""
    deadline = time.monotonic() + STOP_S
    while process.is_running() and time.monotonic() < deadline:
        if process.status() == psutil.STATUS_ZOMBIE:
            _reap(process.pid)
            return
        time.sleep(0.02)


@contextlib.contextmanager
def _locked(settings: Settings, name: str) -> Iterator[None]:
    settings.run.mkdir(parents=True, exist_ok=True)
    with (settings.run / f"phone-{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"
