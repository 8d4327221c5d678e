"""The control socket: a JSON list of words in, `[exit code, text]` out, one request a connection (see ask.py)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from device_agent.virtual.answers import Answer
from device_agent.virtual.ask import SOCKET_NAME

Command = Callable[[list[str]], Answer]


async def serve_control(root: Path, commands: Mapping[str, Command]) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            answer = _answer(await reader.readuntil(b"\n"), commands)
            writer.write(json.dumps(answer).encode())
            await writer.drain()
        writer.close()

    (root / SOCKET_NAME).unlink(missing_ok=True)
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        return await asyncio.start_unix_server(serve, f"/proc/self/fd/{folder}/{SOCKET_NAME}")
    finally:
        os.close(folder)


def _answer(request: bytes, commands: Mapping[str, Command]) -> Answer:
    """Raises ValueError for what is not a JSON list of strings."""
    words = json.loads(request)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError("expected a list of words")
    if words[0] not in commands:
        return 2, f"unknown command {words[0]!r}; there are {', '.join(sorted(commands))}\n"
    return commands[words[0]](words[1:])
