"""The one function through which every word reaches a phone's shell."""

from __future__ import annotations

import shlex

from orchestrator.errors import UsageError


def quote(word: str) -> str:
    """`word` as one word of any POSIX shell (sh, mksh, bash). Raises UsageError for what no command line can hold."""
    if "\0" in word:
        raise UsageError(f"{word!r} holds a NUL byte: no shell command can carry it", "use a name without NUL bytes")
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{word!r} is not valid Unicode: {error.reason}", "use a name that is valid UTF-8") from error
    return shlex.quote(word)


def command(*words: str) -> str:
    """A command line of quoted words."""
    return " ".join(quote(word) for word in words)
