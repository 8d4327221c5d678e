from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.virtual.auth import Access, Policy, parse_public_key, signed_by
from orchestrator.farm.adb.keys import load_signer


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "adbkey"
    load_signer(path)
    return path


def public(key: Path) -> bytes:
    return Path(f"{key}.pub").read_bytes()


@settings(max_examples=10, deadline=None)  # signing is slow: pure Python
@given(st.binary(min_size=20, max_size=20))
def test_signature_of_the_token_and_no_other(key: Path, token: bytes) -> None:
    trusted, signature = parse_public_key(public(key)), load_signer(key).Sign(token)
    assert signed_by(trusted, token, signature)
    assert not signed_by(trusted, bytes(byte ^ 1 for byte in token), signature)
    assert not signed_by(trusted, token, signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not signed_by(trusted, token, signature[1:])


@pytest.mark.parametrize("text", [b"", b"\0", b"!!!! user@host", base64.b64encode(bytes(524)), base64.b64encode(b"x")])
def test_what_is_no_key(text: bytes) -> None:
    with pytest.raises(ValueError, match="not "):
        parse_public_key(text)


def test_allowed_keys_are_kept_and_revoked(key: Path, tmp_path: Path) -> None:
    signature = bytes(load_signer(key).Sign(bytes(20)))
    access = Access(Policy.ASK, tmp_path / "adb_keys")
    assert not access.knows(bytes(20), signature)
    access.allow(public(key) + b"\0")
    assert Access(Policy.ASK, tmp_path / "adb_keys").knows(bytes(20), signature)
    access.revoke_all()
    assert not access.knows(bytes(20), signature)
