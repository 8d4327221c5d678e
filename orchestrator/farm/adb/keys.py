"""The farm's own ADB key pair: what a phone is asked to trust."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from adb_shell.auth.keygen import keygen
from adb_shell.auth.sign_pythonrsa import PythonRSASigner

from orchestrator.errors import PhoneError


def load_signer(key_path: Path) -> PythonRSASigner:
    """Signer of the pair `key_path`, `key_path.pub`; made with mode 0600 when it is not there, once among processes."""
    public = key_path.with_name(key_path.name + ".pub")
    if not (key_path.exists() and public.exists()):
        _make(key_path, public)
    try:
        return PythonRSASigner.FromRSAKeyPath(str(key_path))
    except (OSError, ValueError) as error:
        raise PhoneError(
            f"ADB key {key_path} cannot be read: {error}", f"delete {key_path} to make a new one"
        ) from error


def _make(key_path: Path, public: Path) -> None:
    key_path.parent.mkdir(parents=True, exist_ok=True)
    with key_path.with_name(key_path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if key_path.exists() and public.exists():
            return
        new = key_path.with_name(key_path.name + ".new")
        new_public = new.with_name(new.name + ".pub")
        for path in (new, new_public):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            path.chmod(0o600)  # it may have been there, with another mode
        keygen(str(new))
        new_public.replace(public)
        new.replace(key_path)
