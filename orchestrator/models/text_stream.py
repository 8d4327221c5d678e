"""Text of tokens that arrive a few at a time: a character whose bytes lie in several tokens shows once it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

UNFINISHED = "\ufffd"  # what decoding makes of bytes that are no character, or none yet


class TextStream:
    """`decode`: ids → text, byte by byte, so that more ids never change the text before an unfinished character."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._shown = 0

    def feed(self, ids: Iterable[int]) -> str:
        """The text that is new and certain after `ids`."""
        self._ids += ids
        return self._new(self._decode(self._ids).rstrip(UNFINISHED))

    def rest(self, ids: Sequence[int]) -> str:
        """What `feed` did not show yet of the whole text `ids`, odd bytes at its end included."""
        return self._new(self._decode(ids))

    def _new(self, text: str) -> str:
        new = text[self._shown :]
        self._shown += len(new)
        return new
