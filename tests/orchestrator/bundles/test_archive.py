from __future__ import annotations

import os
import tarfile
from pathlib import Path

from orchestrator.bundles.archive import folder_members, write_archive


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    for name, when in (("one", 10), ("two", 20)):
        folder = tmp_path / name
        for file in ("b", "a") if name == "one" else ("a", "b"):
            (folder / file).mkdir(parents=True)
            (folder / file / "x").write_text(file)
            os.utime(folder / file / "x", (when, when))
        write_archive(tmp_path / f"{name}.tar.gz", folder_members(folder))
    one, two = ((tmp_path / f"{name}.tar.gz") for name in ("one", "two"))
    with tarfile.open(one) as first, tarfile.open(two) as second:
        assert [m.get_info() for m in first][:-1] == [m.get_info() for m in second][:-1]
        assert first.getnames() == ["a/x", "b/x", "complete-one"], "in order, and its mark comes last"
    write_archive(tmp_path / "two" / "one.tar.gz", folder_members(tmp_path / "one"))
    assert (tmp_path / "two" / "one.tar.gz").read_bytes() == one.read_bytes()


def test_keeps_what_may_be_executed_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "run").touch(0o755)
    (tmp_path / "in" / "link").symlink_to("run")
    (tmp_path / "in" / "nowhere").symlink_to("/nothing/here")
    write_archive(tmp_path / "out.tar.gz", folder_members(tmp_path / "in"))
    with tarfile.open(tmp_path / "out.tar.gz") as archive:
        assert {m.name: (m.mode, m.isreg()) for m in archive} == {
            "link": (0o755, True),
            "run": (0o755, True),
            "complete-out": (0o644, True),
        }
