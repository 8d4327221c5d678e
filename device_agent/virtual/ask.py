"""Ask a running virtual phone something over its control socket.

Imported by tests and the farm (`ask(root, "cut")`), and run as a script by the phone's own getprop, dumpsys and df.
Standard library only and no other module of ours: it starts for every such command.
"""

from __future__ import annotations

import json
import os
import socket
import sys

SOCKET_NAME = "control.sock"


def ask(root: str | os.PathLike[str], *words: str, timeout_s: float = 10.0) -> tuple[int, str]:
    """Exit code and text. Raises OSError when no phone answers."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(timeout_s)
            # by descriptor: a socket's address has 107 bytes, a root's path may be longer
            client.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
            client.sendall(json.dumps(words).encode() + b"\n")
            with client.makefile("rb") as answer_file:
                reply = answer_file.read()
    finally:
        os.close(folder)
    if not reply:
        raise ConnectionResetError(f"the phone at {root} hung up")
    code, text = json.loads(reply)
    return code, text


if __name__ == "__main__":
    try:
        exit_code, answer = ask(os.environ["LEVER_PHONE"], *sys.argv[1:])
    except OSError as problem:
        exit_code, answer = 1, f"{sys.argv[1]}: {problem}\n"
    (sys.stderr if exit_code else sys.stdout).write(answer)
    sys.exit(exit_code)
