from __future__ import annotations

import os
import subprocess
import sys

from orchestrator.controller.owner import is_gone, new_owner

SAY = "from orchestrator.controller.owner import new_owner; print(new_owner('here'), flush=True); input()"


def test_a_process_is_gone_once_it_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    owner = process.stdout.readline().strip()
    assert not is_gone(owner, "here")
    process.communicate("\n", timeout=30)
    assert is_gone(owner, "here")
    assert not is_gone(owner, "elsewhere")  # its processes are not ours to see


def test_a_pid_that_another_process_got_is_not_taken_for_it() -> None:
    assert not is_gone(new_owner("here"), "here")
    assert is_gone(f"here/{os.getpid()}/1", "here")


def test_what_we_did_not_name_is_never_gone() -> None:
    assert not any(is_gone(owner, "here") for owner in ("", "here", "me", "here/x/1"))
