from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from device_agent.virtual.auth import parse_public_key, signed_by
from orchestrator.errors import PhoneError
from orchestrator.farm.adb.keys import load_signer


def test_made_once_private_and_matching(tmp_path: Path) -> None:
    key = tmp_path / "home" / "adbkey"
    with ThreadPoolExecutor(4) as pool:
        signers = list(pool.map(lambda _: load_signer(key), range(4)))
    public = parse_public_key((tmp_path / "home" / "adbkey.pub").read_bytes())
    assert all(signed_by(public, bytes(20), signer.Sign(bytes(20))) for signer in signers)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(path.name for path in key.parent.iterdir()) == ["adbkey", "adbkey.lock", "adbkey.pub"]


def test_broken_key_is_named(tmp_path: Path) -> None:
    key = tmp_path / "adbkey"
    load_signer(key)
    key.write_text("nonsense")
    with pytest.raises(PhoneError, match=str(key)):
        load_signer(key)
