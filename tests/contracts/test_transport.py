"""What every transport promises (orchestrator/farm/adb/contract.py), over every phone and client
of tests/fakes/adb_links.py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from tests.fakes.adb_links import ALL, AdbLink, AdbPhone, adb_link

TMP = "/data/local/tmp"


@pytest.fixture(scope="module", params=ALL)
def link(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbLink]:
    with adb_link(request.param, tmp_path_factory.mktemp("link")) as running:
        yield running


@pytest.fixture
def phone(link: AdbLink) -> AdbPhone:
    return link.phone


@pytest.fixture
def transport(link: AdbLink) -> Iterator[Transport]:
    with link.entered(), link.open() as opened:
        opened.connect(10)
        yield opened


def test_banner(transport: Transport, phone: AdbPhone) -> None:
    banner = transport.banner()
    assert banner["ro.product.model"] == phone.model
    assert "shell_v2" in banner["features"].split(",")


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo hello", 0, "hello\n"),
        ("printf no-newline", 0, "no-newline"),
        ("exit 3", 3, ""),
        ("false # comment", 1, ""),
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("printf 'a\\r\\nb\\n'", 0, "a\r\nb\n"),
        ("", 0, ""),
    ],
)
def test_shell_gives_exit_code_and_merged_output(transport: Transport, command: str, code: int, output: str) -> None:
    result = transport.shell(command, 10)
    assert (result.exit_code, result.stdout) == (code, output)


def test_shell_that_is_killed_gives_its_signal(transport: Transport) -> None:
    result = transport.shell("kill -9 $$", 10)
    assert (result.exit_code, result.stdout.strip()) == (137, "Killed")


def test_shell_syntax_error_is_a_result(transport: Transport) -> None:
    result = transport.shell("if then '", 10)
    assert result.exit_code in (1, 2)  # mksh's and dash's
    assert result.stdout


def test_standard_input_is_empty(transport: Transport) -> None:
    assert transport.shell("cat; echo end", 10).stdout == "end\n"


def test_one_connection_serves_operation_after_operation(transport: Transport) -> None:
    assert [transport.shell(f"echo {i}", 10).stdout for i in range(20)] == [f"{i}\n" for i in range(20)]


def test_a_begun_command_runs_while_others_come_and_go(transport: Transport, tmp_path: Path) -> None:
    pushed = tmp_path / "pushed"
    pushed.write_bytes(os.urandom(3_000_000))
    begun = transport.begin(f"echo begun; while read -r name && [ $name ]; do wc -c <{TMP}/$name; done; exit 5", 10)
    transport.push(pushed, f"{TMP}/beside", 20)
    begun.write(b"beside\n", 10)
    assert transport.shell("echo meanwhile", 10).stdout == "meanwhile\n"
    begun.write(b"besi", 10)
    begun.write(b"de\n\n", 10)
    result = begun.result(10)
    assert (result.exit_code, result.stdout.split()) == (5, ["begun", "3000000", "3000000"])
    begun.close()
    assert transport.shell("echo alive", 10).stdout == "alive\n"


@pytest.mark.parametrize("size", [0, 1, 4096, 65535, 65536, 65537, 3 * 1048576 + 17, 20 * 1000 * 1000])
def test_push_and_pull_any_size(transport: Transport, tmp_path: Path, phone: AdbPhone, size: int) -> None:
    source, target = tmp_path / "source", tmp_path / "new folder" / "target"
    source.write_bytes(os.urandom(size))
    sent: list[int] = []
    transport.push(source, f"{TMP}/made/on/the way/file {size}", 60, sent.append)
    transport.pull(f"{TMP}/made/on/the way/file {size}", target, 60)
    assert phone.path(f"{TMP}/made/on/the way/file {size}").read_bytes() == source.read_bytes()
    assert target.read_bytes() == source.read_bytes()
    assert sent == sorted(sent)
    assert sent[-1] == size


def test_push_keeps_mode_and_time(transport: Transport, tmp_path: Path, phone: AdbPhone) -> None:
    source = tmp_path / "tool"
    source.write_text("#!/bin/sh\necho ran\n")
    source.chmod(0o755)
    os.utime(source, (1_600_000_000, 1_600_000_000))
    transport.push(source, f"{TMP}/tool", 10)
    assert transport.shell(f"{TMP}/tool", 10).stdout == "ran\n"
    assert phone.path(f"{TMP}/tool").stat().st_mtime == 1_600_000_000


def test_push_overwrites(transport: Transport, tmp_path: Path) -> None:
    transport.push_bytes(b"long old text", f"{TMP}/same", 10)
    transport.push_bytes(b"new", f"{TMP}/same", 10)
    assert transport.read(f"{TMP}/same", 10) == b"new"


def test_pull_of_nothing_leaves_nothing(transport: Transport, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        transport.pull(f"{TMP}/absent", tmp_path / "pulled", 10)
    assert list(tmp_path.iterdir()) == []
    assert transport.shell("echo alive", 10).stdout == "alive\n"


def test_read_parts(transport: Transport) -> None:
    data = bytes(range(256)) * 8 + b"\r\n\0end"
    transport.push_bytes(data, f"{TMP}/all bytes", 10)
    assert transport.read(f"{TMP}/all bytes", 10) == data
    assert transport.read(f"{TMP}/all bytes", 10, offset=250, max_bytes=20) == data[250:270]
    assert transport.read(f"{TMP}/all bytes", 10, offset=len(data)) == b""
    assert transport.read(f"{TMP}/absent", 10) == b""


@pytest.mark.parametrize("name", ["with space", "quo'te", 'dou"ble', "$(touch pwned)", "new\nline", "-n", "ünïcödé 📱"])
def test_names_that_break_shells(transport: Transport, phone: AdbPhone, tmp_path: Path, name: str) -> None:
    transport.push_bytes(b"x", f"{TMP}/names/{name}", 10)
    assert transport.read(f"{TMP}/names/{name}", 10) == b"x"
    assert transport.shell(f"rm {quote(f'{TMP}/names/{name}')} && ls -A {TMP}/names", 10).stdout == ""
    assert not (phone.root / "pwned").exists()


def test_detached_job_outlives_its_shell_and_the_connection(transport: Transport) -> None:
    folder = f"{TMP}/job"
    job = f"echo $$ >{folder}/pid; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo 7 >{folder}/rc"
    start = f"trap '' HUP; setsid sh -c {quote(job)} >{folder}/log 2>&1 </dev/null &"
    transport.shell(f"rm -rf {folder}; mkdir {folder}; {start}", 10)
    transport.close()
    transport.connect(10)
    assert transport.shell(f"while ! kill -0 $(cat {folder}/pid); do sleep 0.05; done 2>/dev/null", 10).exit_code == 0
    transport.shell(f"touch {folder}/go; while [ ! -s {folder}/rc ]; do sleep 0.05; done", 10)
    assert transport.read(f"{folder}/rc", 10) == b"7\n"


def test_reconnect(transport: Transport) -> None:
    transport.close()
    transport.connect(10)
    assert transport.shell("echo again", 10).stdout == "again\n"


@pytest.mark.slow
def test_300_mb(transport: Transport, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(300_000_000))
    transport.push(tmp_path / "big", f"{TMP}/big", 120)
    transport.pull(f"{TMP}/big", tmp_path / "back", 120)
    assert subprocess.run(["cmp", tmp_path / "big", tmp_path / "back"], check=False).returncode == 0
