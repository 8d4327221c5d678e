from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.models.text_stream import TextStream


def decode(ids: object) -> str:
    """Bytes as tokens, as a byte-level tokenizer's smallest ones are."""
    return bytes(ids).decode(errors="replace")  # type: ignore[call-overload,no-any-return]


@given(st.text(), st.lists(st.integers(1, 7)))
def test_text_comes_in_whole_characters_and_all_of_it(text: str, sizes: list[int]) -> None:
    data = list(text.encode())
    stream, parts, at = TextStream(decode), [], 0
    for size in sizes:
        parts.append(stream.feed(data[at : at + size]))
        at += size
        assert text.startswith("".join(parts))
    parts.append(stream.rest(data))
    assert "".join(parts) == text


def test_a_character_is_shown_with_its_last_byte() -> None:
    stream = TextStream(decode)
    assert [stream.feed([byte]) for byte in "é👍".encode()] == ["", "é", "", "", "", "👍"]


@given(st.lists(st.integers(0, 255)), st.integers(1, 5))
def test_bytes_that_are_no_text_are_shown_in_the_end(data: list[int], size: int) -> None:
    stream = TextStream(decode)
    parts = [stream.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert "".join([*parts, stream.rest(data)]) == decode(data)
