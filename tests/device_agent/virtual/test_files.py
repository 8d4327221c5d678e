from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.virtual.files import Files

PLAIN = Path("/srv/phone")


@pytest.mark.parametrize(
    ("command", "rewritten"),
    [
        ("ls /data", "ls /srv/phone/data"),
        ("/data/local/tmp/tool --out=/sdcard/x", "/srv/phone/data/local/tmp/tool --out=/srv/phone/sdcard/x"),
        ("A=/data/x;cat</data/y>/data/z", "A=/srv/phone/data/x;cat</srv/phone/data/y>/srv/phone/data/z"),
        ("cat '/data/a b' \"/data/c\"", "cat '/srv/phone/data/a b' \"/srv/phone/data/c\""),
        ("sh -c 'cat '\"'\"'/data/x'\"'\"''", "sh -c 'cat '\"'\"'/srv/phone/data/x'\"'\"''"),
        ("x=$(cat /data/x) `/data/y`", "x=$(cat /srv/phone/data/x) `/srv/phone/data/y`"),
        ("cd /data&&ls", "cd /srv/phone/data&&ls"),
        ("ls /database /data-old /data.old", "ls /database /data-old /data.old"),
        ("ls /tmp/data ./data $HOME/data http://data/", "ls /tmp/data ./data $HOME/data http://data/"),
        ("cat /proc/meminfo </proc/1/stat", "cat /srv/phone/proc/meminfo </proc/1/stat"),
        ("ls /sys/devices/system/cpu/cpu[0-9]*", "ls /srv/phone/sys/devices/system/cpu/cpu[0-9]*"),
        ("ls /srv/phone/data", "ls /srv/phone/data"),
    ],
)
def test_path_words_are_rewritten(command: str, rewritten: str) -> None:
    assert Files(PLAIN).rewrite(command) == rewritten
    assert Files(PLAIN).rewrite(rewritten) == rewritten


@given(st.text(st.characters(exclude_characters="\0")))
def test_no_path_leaves_the_root(path: str) -> None:
    mapped = Files(PLAIN).host_path(path)
    assert mapped == "/srv/phone" or (mapped.startswith("/srv/phone/") and ".." not in mapped.split("/"))


def test_printed_paths_are_understood() -> None:
    assert Files(PLAIN).host_path("/srv/phone/data/x") == Files(PLAIN).host_path("/data/x") == "/srv/phone/data/x"


@pytest.mark.parametrize("name", ["a b", "it's", "$(x)", "new\nline", "ü", "long" * 30])
def test_odd_roots_get_a_plain_prefix(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path / name)
    files.create()
    (tmp_path / name / "data/local/tmp/x").write_text("here")
    shown = subprocess.run(["sh", "-c", files.rewrite("cat /data/local/tmp/x")], capture_output=True, check=True)
    assert shown.stdout == b"here"
    assert len(files.prefix) < 80
    files.close()
    assert not Path(files.prefix).parent.exists()


def test_alias_of_a_killed_phone_is_used_again(tmp_path: Path) -> None:
    killed = Files(tmp_path / "a b")
    again = Files(tmp_path / "a b")
    other = Files(tmp_path / "a c")
    assert again.prefix == killed.prefix != other.prefix
    again.close()
    other.close()
