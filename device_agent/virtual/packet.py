"""ADB's packets: six little-endian words and a payload (Android's adb/protocol.txt)."""

from __future__ import annotations

import asyncio
import struct
import zlib
from dataclasses import dataclass

HEADER = struct.Struct("<6I")
MAX_PAYLOAD = 1 << 20
VERSION = 0x01000001  # from this version on nobody computes checksums
VERSION_WITH_CHECKSUMS = 0x01000000


def word(name: bytes) -> int:
    """A four-letter command as the little-endian word on the wire."""
    return int.from_bytes(name, "little")


CNXN, AUTH, OPEN, OKAY, CLSE, WRTE = (word(name) for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE"))


class ProtocolError(Exception):
    """What arrived is not ADB: the connection is dropped, as adbd does."""


@dataclass(frozen=True)
class Packet:
    command: int
    arg0: int
    arg1: int
    payload: bytes
    checksum: int


def encode_header(command: int, arg0: int, arg1: int, length: int, checksum: int) -> bytes:
    return HEADER.pack(command, arg0, arg1, length, checksum, command ^ 0xFFFFFFFF)


async def read_packet(reader: asyncio.StreamReader) -> Packet:
    """Next packet; raises ProtocolError for garbage, asyncio.IncompleteReadError at the end."""
    command, arg0, arg1, length, checksum, magic = HEADER.unpack(await reader.readexactly(HEADER.size))
    if magic != command ^ 0xFFFFFFFF or length > MAX_PAYLOAD:
        raise ProtocolError(f"not an ADB packet: command {command:#x}, magic {magic:#x}, length {length}")
    return Packet(command, arg0, arg1, await reader.readexactly(length) if length else b"", checksum)


def byte_sum(data: bytes) -> int:
    """Sum of all bytes: what old ADB calls a checksum.

    Adler-32's low half is 1 + the sum modulo 65521, so pieces of 256 bytes give it exactly, ten times as fast as sum().
    """
    view = memoryview(data)
    pieces = range(0, len(view), 256)
    return sum(zlib.adler32(view[i : i + 256]) & 0xFFFF for i in pieces) - len(pieces)
