"""`python -m device_agent.virtual --root DIR --profile NAME --name NAME [--port 0] [--require-auth]`

Runs until SIGTERM or SIGINT. Linux only: it uses CPU affinity, the subreaper and /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import signal
import sys
from pathlib import Path

from device_agent.virtual.auth import Policy
from device_agent.virtual.phone import VirtualPhone
from device_agent.virtual.profile import profile_names


def main() -> int:
    parser = argparse.ArgumentParser(prog="device_agent.virtual", description="A virtual phone on ADB over TCP.")
    parser.add_argument("--root", type=Path, required=True, help="the phone's folder; made when it is not there")
    parser.add_argument("--profile", required=True, help=f"{', '.join(profile_names())}, or a file of the same form")
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0: any free one")
    parser.add_argument("--require-auth", action="store_true", help="hosts' keys wait until the phone allows them")
    parser.add_argument("--no-cgroups", action="store_true", help="limits by affinity, prlimit and pacer only")
    arguments = parser.parse_args()
    _let_children_be_ended()
    root: Path = arguments.root.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            policy = Policy.ASK if arguments.require_auth else Policy.OPEN
            phone = VirtualPhone(root, arguments.profile, arguments.name, policy, not arguments.no_cgroups)
            asyncio.run(_run(phone, arguments.port))
    except BlockingIOError:
        return _complain(f"{root} is the folder of a virtual phone that runs already")
    except KeyError as error:
        return _complain(error.args[0])
    except (OSError, ValueError) as error:
        return _complain(f"virtual phone {arguments.name} in {root} cannot start: {error}")
    return 0


async def _run(phone: VirtualPhone, port: int) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        await phone.start(port)
        await ended.wait()
    finally:
        phone.stop()


def _let_children_be_ended() -> None:
    """Whoever started this phone may ignore hang-ups, as nohup does; commands on a phone end with their connection. A
    handler, unlike ignoring, is not handed down."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def _complain(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
