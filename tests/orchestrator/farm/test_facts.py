from __future__ import annotations

from typing import cast

import pytest

from orchestrator.errors import PhoneUnreachable
from orchestrator.farm.adb.contract import ShellResult, Transport
from orchestrator.farm.facts import read_facts
from orchestrator.farm.health import probe

OLD_PHONE = """[dalvik.vm.heapsize]: [512m]
[ro.board.platform]: [lahaina]
[ro.build.fingerprint]: [samsung/o1sxeea/o1s:11/RP1A/G991B:user/release-keys]
[ro.build.version.sdk]: [30]
[ro.product.cpu.abilist]: [arm64-v8a,armeabi-v7a,armeabi]
[ro.product.model]: [SM-G991B]
[ro.serialno]: [R5CR]
>
MemTotal:        7645916 kB
MemFree:          302076 kB
>
/sys/devices/system/cpu/cpu0
/sys/devices/system/cpu/cpu1
"""


class Says:
    def __init__(self, stdout: str, exit_code: int = 0) -> None:
        self.answer = ShellResult(exit_code, stdout)

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        return self.answer


def test_a_real_phone_from_before_android_12() -> None:
    assert read_facts(cast(Transport, Says(OLD_PHONE))) == {
        "serial": "R5CR",
        "model": "SM-G991B",
        "soc": "lahaina",
        "abi": "arm64-v8a",
        "abis": ["arm64-v8a", "armeabi-v7a", "armeabi"],
        "sdk": 30,
        "fingerprint": "samsung/o1sxeea/o1s:11/RP1A/G991B:user/release-keys",
        "ram_mb": 7466,
        "cores": 2,
        "runtime": "none",
    }


def test_a_phone_that_tells_nothing() -> None:
    facts = read_facts(cast(Transport, Says("\n>\n\n>\n")))
    assert (facts["model"], facts["soc"], facts["ram_mb"], facts["sdk"]) == ("unknown", "unknown", 0, 0)


@pytest.mark.parametrize(("stdout", "code"), [("", 0), ("hello\n", 0), ("sh: inaccessible\n", 127)])
def test_only_the_nonce_counts_as_healthy(stdout: str, code: int) -> None:
    with pytest.raises(PhoneUnreachable, match="to an echo"):
        probe(cast(Transport, Says(stdout, code)))
