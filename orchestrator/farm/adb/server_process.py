"""Which adb server serves whom.

The user's own server (port 5037, or ANDROID_ADB_SERVER_PORT) holds the USB phones, which only one server can claim: it
is used for nothing else, and never ended. All other phones go through a private server on a port of its own, with the
farm's key, and without USB, mDNS or a search for emulators.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from orchestrator.errors import PhoneError
from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, LinkDown
from orchestrator.farm.adb.keys import load_signer
from orchestrator.farm.adb.server_client import HOST, ServerClient
from orchestrator.processes import ProcessId, find, lives
from orchestrator.run_files import locked, read_json, write_json

START_S = 20.0
_ANSWER_S = 5.0
_END_S = 0.3
_NO_ADB = "install Android's platform tools, or adbutils from a wheel that carries adb"


def user_server() -> ServerClient:
    """The server that `adb` itself would use; started, as `adb` does, when there is none. Raises PhoneError."""
    server = ServerClient(_user_port(), str(Path.home() / ".android" / "adbkey.pub"))
    if not _answers(server):
        try:
            subprocess.run([adb_binary(), "start-server"], check=True, capture_output=True, text=True, timeout=START_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise PhoneError(
                f"the adb server for USB phones does not start: {error}", "run: adb start-server"
            ) from error
    return server


def private_server(key_path: Path) -> ServerClient:
    """The farm's own, started when it does not run; lives beside the key `key_path`. Raises PhoneError."""
    folder = _folder(key_path)
    with locked(folder / "lock"):
        running = _running(folder)
        port = running[1] if running else _start(folder, key_path)
    return ServerClient(port, f"{key_path}.pub")


def stop_private_server(key_path: Path) -> bool:
    """End exactly the server that private_server() started; False when it does not run."""
    folder = _folder(key_path)
    with locked(folder / "lock"):
        running = _running(folder)
        if running is None:
            return False
        process, _ = running
        process.terminate()
        try:
            process.wait(_END_S)  # it takes 2 s to let go of nothing
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_ANSWER_S)
        (folder / "server.json").unlink(missing_ok=True)
    return True


def adb_binary() -> str:
    """The one in adbutils' wheel; where the wheel has none, the system's. Raises PhoneError."""
    import adbutils

    bundled = Path(adbutils.__file__).parent / "binaries" / "adb"
    if bundled.exists():
        return str(bundled)
    if found := shutil.which("adb"):
        return found
    raise PhoneError("there is no adb on this machine", _NO_ADB)


def _folder(key_path: Path) -> Path:
    return key_path.parent / "server"


def _user_port() -> int:
    text = os.environ.get("ANDROID_ADB_SERVER_PORT", "")
    return int(text) if text.isdecimal() else 5037


def _running(folder: Path) -> tuple[psutil.Process, int] | None:
    """Ours, by pid and start time, and its port."""
    saved = read_json(folder / "server.json")
    try:
        process = find(ProcessId(int(saved["pid"]), float(saved["started"]))) if saved else None
        return (process, int(saved["port"])) if saved and process else None
    except (KeyError, ValueError, TypeError):
        return None


def _start(folder: Path, key_path: Path) -> int:
    home = folder / "home"  # where adb keeps its key and the phones that it was paired with
    (home / ".android").mkdir(parents=True, exist_ok=True)
    load_signer(key_path)  # makes it
    for name, target in (("adbkey", key_path), ("adbkey.pub", key_path.with_name(key_path.name + ".pub"))):
        link = home / ".android" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target.absolute())
    port = _free_port()
    process = _launched([adb_binary(), "-P", str(port), "server", "nodaemon"], home, folder / "log")
    _await_answer(process, port, folder / "log")
    write_json(folder / "server.json", {"pid": process.pid, "started": process.create_time(), "port": port})
    return port


def _launched(command: list[str], home: Path, log: Path) -> psutil.Process:
    """A process that is nobody's child: it outlives us, and nobody has to reap it."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!', "sh", str(log), *command],
        env={"PATH": os.defpath, "HOME": str(home), "ADB_USB": "0", "ADB_MDNS": "0", "ADB_EMU": "0"},
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return psutil.Process(int(done.stdout))


def _await_answer(process: psutil.Process, port: int, log: Path) -> None:
    server = ServerClient(port, "")
    latest = time.monotonic() + START_S
    while not _answers(server):
        if not lives(process) or time.monotonic() > latest:
            with suppress(psutil.Error):
                process.kill()
            said = log.read_text(errors="replace").strip()[-300:] or "it says nothing"
            raise PhoneError(f"the farm's adb server does not start: {said}", f"see {log}")
        time.sleep(0.02)


def _answers(server: ServerClient) -> bool:
    deadline = Deadline()
    deadline.allow(_ANSWER_S)
    try:
        server.ask("host:version", deadline)
    except (LinkDown, DeadlinePassed):
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
