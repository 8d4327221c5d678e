"""One host's connection to the phone: handshake, authentication, then streams by id.

Rules that real clients need (both adb and adb-shell were tried): OKAY(local, remote) answers OPEN, a failed OPEN is
CLSE(0, remote), a CLSE for a living stream is answered by CLSE, unknown ids are ignored, checksums are computed for
hosts of protocol version 0x01000000 only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from device_agent.virtual import packet as adb
from device_agent.virtual.auth import TOKEN_BYTES, Access, Policy, parse_public_key
from device_agent.virtual.link import Link
from device_agent.virtual.reverse import Reverse
from device_agent.virtual.stream import Service, Stream, StreamClosed

_AUTH_TOKEN, _AUTH_SIGNATURE, _AUTH_PUBLIC_KEY = 1, 2, 3

OpenService = Callable[[str, "Connection"], Service | None]  # the destination's service, None when there is none


class Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        banner: bytes,
        access: Access,
        open_service: OpenService,
        link: Link,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._banner, self._access, self._open_service, self._link = banner, access, open_service, link
        self.reverse = Reverse(self._dial_host)
        self._checksums = True
        self._max_payload = 4096
        self._authorized = False
        self._token = b""
        self._offered_key: bytes | None = None  # waits for somebody to allow it
        self._streams: dict[int, tuple[int, Stream, asyncio.Task[None]]] = {}  # local id → remote id, stream, service
        self._next_id = 1
        self._dialled: dict[int, asyncio.Future[int]] = {}  # local id → remote id, 0 when the host refuses

    async def serve(self) -> None:
        """Until the host hangs up, sends garbage, or cut() is called."""
        try:
            while True:
                packet = await adb.read_packet(self._reader)
                await self._link.carry(adb.HEADER.size + len(packet.payload))
                if self._link.garbage:
                    self.babble()
                else:
                    self._handle(packet)
        except (adb.ProtocolError, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.reverse.close()
            await self._end_services()
            self._writer.close()

    def cut(self) -> None:
        """As if the cable were pulled: no goodbye."""
        self._writer.transport.abort()

    def babble(self) -> None:
        """Noise that is no packet."""
        self._writer.write(os.urandom(2 * adb.HEADER.size))

    def allow_offered_key(self) -> None:
        """Somebody tapped "allow" on the phone."""
        if self._offered_key is not None:
            self._access.allow(self._offered_key)
            self._offered_key = None
            self._welcome()

    def _handle(self, packet: adb.Packet) -> None:
        if self._checksums and packet.command != adb.CNXN and adb.byte_sum(packet.payload) != packet.checksum:
            raise adb.ProtocolError("wrong checksum")
        if packet.command == adb.CNXN:
            self._on_connect(packet)
        elif packet.command == adb.AUTH:
            self._on_auth(packet)
        elif self._authorized:
            self._on_stream_packet(packet)

    def _on_connect(self, packet: adb.Packet) -> None:
        self._checksums = packet.arg0 < adb.VERSION
        self._max_payload = max(4096, min(packet.arg1, adb.MAX_PAYLOAD))
        self._authorized = False
        if self._access.policy is Policy.OPEN:
            self._welcome()
        else:
            self._challenge()

    def _on_auth(self, packet: adb.Packet) -> None:
        if packet.arg0 == _AUTH_SIGNATURE and self._token:
            if self._access.knows(self._token, packet.payload):
                self._welcome()
            else:
                self._challenge()
        elif packet.arg0 == _AUTH_PUBLIC_KEY:
            self._on_public_key(packet.payload)

    def _on_public_key(self, key: bytes) -> None:
        try:
            parse_public_key(key)
        except ValueError as error:
            raise adb.ProtocolError(str(error)) from error
        self._offered_key = key
        if self._access.policy is Policy.ACCEPT:
            self.allow_offered_key()

    def _challenge(self) -> None:
        self._token = os.urandom(TOKEN_BYTES)
        self._send(adb.AUTH, _AUTH_TOKEN, 0, self._token)

    def _welcome(self) -> None:
        self._authorized, self._token = True, b""
        self._send(adb.CNXN, adb.VERSION, adb.MAX_PAYLOAD, self._banner)

    def _on_stream_packet(self, packet: adb.Packet) -> None:
        if packet.command == adb.OPEN:
            self._on_open(packet)
        elif packet.arg1 in self._dialled and packet.command in (adb.OKAY, adb.CLSE):
            self._dialled.pop(packet.arg1).set_result(packet.arg0 if packet.command == adb.OKAY else 0)
        elif packet.arg1 in self._streams:
            remote, stream, task = self._streams[packet.arg1]
            if packet.command == adb.WRTE:
                stream.on_write(packet.payload)
            elif packet.command == adb.OKAY:
                stream.on_okay()
            elif packet.command == adb.CLSE:
                del self._streams[packet.arg1]
                stream.on_close()
                task.cancel()
                self._send(adb.CLSE, packet.arg1, remote)

    def _on_open(self, packet: adb.Packet) -> None:
        remote = packet.arg0
        service = self._open_service(packet.payload.rstrip(b"\0").decode("utf-8", "surrogateescape"), self)
        if service is None or remote == 0:
            self._send(adb.CLSE, 0, remote)
            return
        local = self._new_id()
        self._send(adb.OKAY, local, remote)
        self._serve_stream(local, remote, service)

    async def _dial_host(self, destination: str, service: Service) -> None:
        """Open a stream to the host's side. Raises ConnectionRefusedError."""
        local = self._new_id()
        self._dialled[local] = answered = asyncio.get_running_loop().create_future()
        self._send(adb.OPEN, local, 0, destination.encode("utf-8", "surrogateescape") + b"\0")
        if not (remote := await answered):
            raise ConnectionRefusedError(destination)
        self._serve_stream(local, remote, service)

    def _serve_stream(self, local: int, remote: int, service: Service) -> None:
        okay = partial(self._send, adb.OKAY, local, remote)
        stream = Stream(self._max_payload, partial(self._write, local, remote), okay, self.cut)
        self._streams[local] = remote, stream, asyncio.create_task(self._run(local, remote, service, stream))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    async def _write(self, local: int, remote: int, payload: bytes) -> None:
        await self._link.carry(adb.HEADER.size + len(payload))
        self._send(adb.WRTE, local, remote, payload)

    async def _run(self, local: int, remote: int, service: Service, stream: Stream) -> None:
        try:
            await service(stream)
        except (StreamClosed, EOFError, OSError):
            pass  # the host left, or the phone could not do it: either way the stream ends
        finally:
            if self._streams.pop(local, None):
                self._send(adb.CLSE, local, remote)

    async def _end_services(self) -> None:
        tasks = [task for _, _, task in self._streams.values()]
        self._streams.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self, command: int, arg0: int, arg1: int, payload: bytes = b"") -> None:
        # No drain: a stream has one unacknowledged WRTE, so at most one payload a stream is buffered.
        if self._writer.is_closing():
            return
        checksum = adb.byte_sum(payload) if self._checksums else 0
        self._writer.write(adb.encode_header(command, arg0, arg1, len(payload), checksum))
        if payload:
            self._writer.write(payload)
