"""The limits bind: what wants more gets no more, by cgroups where this host permits them and without."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_agent.virtual import profile
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from tests.fakes.phones import FakePhone, start_phone

RAM_MB, FLASH_MB_S = 256, 20

# Two threads of control that want all cores: what they get in a second of theirs, by the clock.
CPU_SHARE = """
import os, time
try: os.sched_setaffinity(0, range(os.cpu_count()))
except OSError: pass
child = os.fork()
began, used = time.monotonic(), 0.0
while time.process_time() < 0.5: pass
if not child: os._exit(0)
os.waitpid(child, 0)
print(sum(os.times()[:4]) / (time.monotonic() - began))
"""
HUNGRY = "held = [bytes([1]) * (8 << 20) for _ in range(100)]; print('got it all')"
# Direct reads go to the disk whatever was cached; one piece after another, so no more than a piece comes on credit.
READ = f"""
import mmap, os, time
path, size, piece = "PATH", {2 * FLASH_MB_S} * 1_000_000, 1 << 20
fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
page, began, got = mmap.mmap(-1, piece), time.monotonic(), 0
while got < size: got += os.preadv(fd, [page], got % (32 << 20))
print(got / (time.monotonic() - began))
"""


@pytest.fixture(scope="module", params=["cgroups", "no cgroups"])
def phone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakePhone]:
    """One core, little memory, slow flash."""
    folder = tmp_path_factory.mktemp("phones")
    stated = json.loads((Path(profile.__file__).parent / "profiles" / "midrange.json").read_text())
    for key, value in {"cores": 1, "ram_mb": RAM_MB, "flash_mb_s": FLASH_MB_S}.items():
        stated[key] = {"value": value, "source": "chosen: less than this host has"}
    (folder / "tiny.json").write_text(json.dumps(stated))
    extra = ["--no-cgroups"] if request.param == "no cgroups" else []
    running = start_phone(folder / "phone", "tiny", str(folder / "tiny.json"), *extra)
    yield running
    running.stop()


def how(transport: Transport) -> dict[str, str]:
    found: dict[str, str] = json.loads(transport.shell("getprop ro.lever.limits", 10).stdout)
    return found


def python(transport: Transport, script: str) -> tuple[int, str]:
    result = transport.shell(f'"$LEVER_HOST_PYTHON" -c {quote(script)}', 60)
    return result.exit_code, result.stdout


def test_each_limit_says_how_it_binds(phone: FakePhone, transport: Transport) -> None:
    said = how(transport)
    assert set(said) == {"cores", "memory", "flash", "throttling"}
    assert said["cores"].startswith(("cgroup cpuset: 1", "affinity: 1"))
    assert f"{RAM_MB} MiB" in said["memory"]
    assert f"{FLASH_MB_S} MB/s" in said["flash"]
    if "--no-cgroups" in phone.process.args:  # type: ignore[operator]
        assert not any(words.startswith("cgroup") for words in said.values())


def test_cores(transport: Transport) -> None:
    if how(transport)["cores"].startswith("affinity"):
        pytest.skip("affinity binds all but those who ask for more; the agent does not")
    code, share = python(transport, CPU_SHARE)
    assert code == 0
    assert float(share) < 1.1


def test_affinity_is_inherited(transport: Transport) -> None:
    assert python(transport, "import os; print(len(os.sched_getaffinity(0)))") == (0, "1\n")


def test_memory(transport: Transport) -> None:
    code, output = python(transport, HUNGRY)
    assert "got it all" not in output
    if how(transport)["memory"].startswith("cgroup"):
        assert code == 137
        assert int(transport.shell("cat /proc/vmstat", 10).stdout.split()[1]) >= 1, "the kernel's count of such kills"
    else:
        assert "MemoryError" in output


def test_flash(phone: FakePhone, transport: Transport) -> None:
    if not how(transport)["flash"].startswith("cgroup"):
        pytest.skip("the agent paces its own reads there: tests/device_agent/model/test_pacer.py")
    file = phone.path("/data/local/tmp/big")
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    code, rate = python(transport, READ.replace("PATH", str(file)))
    assert code == 0, rate
    assert float(rate) < 1.15 * FLASH_MB_S * 1e6


def test_hot_phones_get_less_time(phone: FakePhone, transport: Transport) -> None:
    if not how(transport)["throttling"].startswith("cgroup"):
        pytest.skip("stated only")
    phone.tell("hot", "80")
    code, share = python(transport, CPU_SHARE)
    phone.tell("clear")
    assert code == 0
    assert float(share) < 0.55
