"""Tab completion, Hydra's: after `eval "$(lever sweep -sc install=bash)"` the shell asks `lever -sc query=bash` what
could follow what was typed, which is in COMP_LINE. Hydra completes `lever sweep …`, we the names of commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

LINE, COMMAND = "COMP_LINE", "sweep"


def is_question(args: Sequence[str]) -> bool:
    """Whether these arguments of `lever` are a shell's question for completions."""
    return list(args[:1]) == ["-sc"]


def commands(names: Iterable[str]) -> list[str] | None:
    """Names of commands that may be meant; None when the line is for Hydra."""
    words = os.environ.get(LINE, "").split(" ")
    if len(words) > 2:
        return None if words[1] == COMMAND else []
    return [name for name in names if name.startswith("".join(words[1:]))]


def strip_command() -> None:
    """Make the line look as if `lever sweep` were one word: Hydra takes the first word away."""
    program, _, rest = os.environ.get(LINE, "").partition(" ")
    if rest.startswith(f"{COMMAND} "):
        os.environ[LINE] = f"{program} {rest.removeprefix(COMMAND).lstrip()}"
