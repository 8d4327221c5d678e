"""What a phone does with a bundle: unpacks it once, or says in one line why not and leaves nothing behind.

By Android's shell and tools where they are installed; the arm64 programs are stubs (stub_bundle.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from device_agent.virtual.userland import ANDROID, install_userland
from orchestrator.farm.bundle import arm64_bundle
from tests.fakes.stub_bundle import EMULATOR, LOADER, stub_base

TREE = "tree"


class Pushed:
    """A bundle as provisioning leaves it on a phone."""

    def __init__(self, tmp_path: Path, loader: str = LOADER, executable: bool = True) -> None:
        stub_base(tmp_path / "home", loader, executable)
        parcel = arm64_bundle(tmp_path / "home")
        assert parcel is not None
        self.folder = tmp_path / "a phone's folder"
        shutil.copytree(parcel.folder, self.folder)
        (self.folder / "verified").touch()
        self._before = self.names()
        self._userland = install_userland(ANDROID, tmp_path / "system", str(tmp_path / "system"))

    def agent(self, *words: str, emulator: str = EMULATOR) -> tuple[int, str]:
        shell, path = self._userland.shell, self._userland.path
        done = subprocess.run(
            [shell, str(self.folder / "agent"), *words],
            env={"PATH": path, "LEVER_EMULATOR": emulator},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip()

    def says(self, tool: str, script: str) -> None:
        """The phone's `tool` is this script from now on."""
        file = Path(self._userland.path) / tool
        file.unlink(missing_ok=True)
        file.write_text(f"#!{self._userland.shell}\n{script}\n")
        file.chmod(0o755)

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    def refuses(self, *, emulator: str = EMULATOR, gone: tuple[str, ...] = ()) -> str:
        code, said = self.agent("probe", emulator=emulator)
        assert code == 1
        assert said.startswith("error: ")
        assert "\n" not in said, "one line"
        assert self.names() == self._before - set(gone), "nothing is left behind"
        return said


def test_is_unpacked_once_and_started_through_its_loader(tmp_path: Path) -> None:
    pushed = Pushed(tmp_path)
    assert pushed.agent("run", "a job") == (0, "-m device_agent run a job")
    assert (pushed.folder / TREE / "site" / "device_agent" / "__main__.py").is_file()
    (pushed.folder / "base.tar.gz").unlink()
    assert pushed.agent("python", "-m", "x") == (0, "-m x"), "unpacked before"
    assert {name for name in pushed.names() if name.startswith(TREE)} == {TREE}


@pytest.mark.parametrize("part", ["base.tar.gz", "agent.tar.gz"])
def test_truncated(part: str, tmp_path: Path) -> None:
    pushed = Pushed(tmp_path)
    file = pushed.folder / part
    os.truncate(file, file.stat().st_size // 2)
    said = pushed.refuses(gone=("verified",))  # so that its parts are hashed again, and the bad one pushed
    assert f"damaged on the phone: {part} ends too early" in said
    assert "register the phone again" in said


def test_another_processor(tmp_path: Path) -> None:
    if os.uname().machine == "aarch64":
        pytest.skip("the stub could run here")
    assert f"for 64-bit Arm processors (aarch64), and this one is {os.uname().machine}" in Pushed(tmp_path).refuses(
        emulator=""
    )


@pytest.mark.parametrize(
    ("release", "old"), [("2.6.32", True), ("3.4.113-lineage", True), ("3.10.0", False), ("6.1-rc1", False)]
)
def test_kernel_too_old(release: str, old: bool, tmp_path: Path) -> None:
    pushed = Pushed(tmp_path)
    pushed.says("uname", f"case $1 in -r) echo {release};; *) echo Linux;; esac")
    if old:
        assert f"kernel is too old: Linux {release}, and 3.7 is the least" in pushed.refuses()
    else:
        assert pushed.agent("probe") == (0, "-m device_agent probe")


def test_programs_that_may_not_be_executed(tmp_path: Path) -> None:
    assert "is mounted noexec: no program can be started" in Pushed(tmp_path, executable=False).refuses()


def test_python_that_does_not_start(tmp_path: Path) -> None:
    pushed = Pushed(tmp_path, "echo starting; echo 'libz.so.1: invalid ELF header' >&2; exit 127")
    assert pushed.refuses().endswith("libz.so.1: invalid ELF header")


def test_what_a_killed_unpacking_left_is_removed(tmp_path: Path) -> None:
    pushed = Pushed(tmp_path)
    (pushed.folder / "tree.new.1" / "lib").mkdir(parents=True)
    assert pushed.agent("probe") == (0, "-m device_agent probe")
    assert not (pushed.folder / "tree.new.1").exists()
