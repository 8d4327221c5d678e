from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.errors import UsageError
from orchestrator.farm.adb.quote import command, quote

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
SHELL_CHARACTERS = st.text("'\"\\$`(){}[]<>|&;!*?~#=%^ \t\n\r-a", max_size=30)
SHELLS = [shell for shell in ("sh", "bash", "mksh") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS | SHELL_CHARACTERS, min_size=1, max_size=5))
@example([""])
@example(["$(exit 9)", "`exit 9`", "'", "\n", "\\", "-n"])
def test_words_arrive_as_they_are(shell: str, words: list[str]) -> None:
    line = "printf '%s\\0' " + command(*words)
    # nested as the transport nests it
    for text in (line, f"sh -c {quote(line)}"):
        got = subprocess.run([shell, "-c", text], capture_output=True, check=True).stdout
        assert got.split(b"\0")[:-1] == [word.encode() for word in words]


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_what_no_shell_can_carry_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        quote(word)
