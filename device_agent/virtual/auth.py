"""ADB's RSA authentication as the phone sees it: parse the host's key, check its signature, remember whom to trust."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

TOKEN_BYTES = 20
_WORDS = 64  # 2048-bit modulus in 32-bit words
# struct of Android's libcrypto_utils: words, n0inv, modulus (little-endian), rr, exponent
_KEY_BYTES = 4 + 4 + 4 * _WORDS + 4 * _WORDS + 4
# RFC 8017 §9.2: DER of DigestInfo for SHA-1; ADB signs its 20-byte token as if it were the digest
_SHA1_PREFIX = bytes.fromhex("3021300906052b0e03021a05000414")


@dataclass(frozen=True)
class PublicKey:
    modulus: int
    exponent: int


def parse_public_key(text: bytes) -> PublicKey:
    """Parse a line of `adbkey.pub`: base64, then a comment. Raises ValueError for anything else."""
    try:
        raw = base64.b64decode(text.rstrip(b"\0").split(b" ")[0], validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    if len(raw) != _KEY_BYTES or int.from_bytes(raw[:4], "little") != _WORDS:
        raise ValueError(f"not a 2048-bit ADB key: {len(raw)} bytes")
    modulus = int.from_bytes(raw[8 : 8 + 4 * _WORDS], "little")
    return PublicKey(modulus, int.from_bytes(raw[-4:], "little"))


def signed_by(key: PublicKey, token: bytes, signature: bytes) -> bool:
    """RSASSA-PKCS1-v1_5 verification (RFC 8017 §8.2.2) over the token: rebuild the whole block and compare."""
    size = 4 * _WORDS
    if len(signature) != size:
        return False
    block = pow(int.from_bytes(signature, "big"), key.exponent, key.modulus).to_bytes(size, "big")
    tail = _SHA1_PREFIX + token
    wanted = b"\x00\x01" + b"\xff" * (size - 3 - len(tail)) + b"\x00" + tail
    return hmac.compare_digest(block, wanted)


class Policy(Enum):
    OPEN = "open"  # no authentication at all, like a debuggable build
    ASK = "ask"  # an unknown key waits until somebody allows it
    ACCEPT = "accept"  # an unknown key is taken and remembered when it is offered


class Access:
    """Whom the phone trusts: a policy and the keys allowed so far (one a line, like /data/misc/adb/adb_keys)."""

    def __init__(self, policy: Policy, keys_file: Path) -> None:
        self.policy, self._file = policy, keys_file

    def knows(self, token: bytes, signature: bytes) -> bool:
        return any(signed_by(parse_public_key(line), token, signature) for line in self._lines())

    def allow(self, key: bytes) -> None:
        parse_public_key(key)
        with self._file.open("ab") as file:
            file.write(key.rstrip(b"\0\n") + b"\n")

    def revoke_all(self) -> None:
        self._file.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        return self._file.read_bytes().splitlines() if self._file.exists() else []
