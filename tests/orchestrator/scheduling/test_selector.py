from __future__ import annotations

import pytest

from orchestrator.entities import DeviceState
from orchestrator.errors import ConfigError
from orchestrator.scheduling.selector import any_one, select
from tests.fakes import farm

PHONES = [
    farm.phone("oneplus12", facts={"soc": "SM8650", "ram_mb": 16_000}, tags=("bench",)),
    farm.phone("pixel8", facts={"soc": "GS301", "ram_mb": 8_000}, state=DeviceState.OFFLINE),
    farm.phone("midrange", facts={"soc": "SM7450", "ram_mb": 12_000}, tags=("bench", "slow")),
    farm.phone("drawer", state=DeviceState.RETIRED),
]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("each", "midrange oneplus12 pixel8"),
        ("any", "midrange oneplus12 pixel8"),
        ("pixel8", "pixel8"),
        ("pixel8, oneplus12,pixel8", "oneplus12 pixel8"),
        ("soc:sm8650", "oneplus12"),
        ("tag:bench", "midrange oneplus12"),
        ("ram_gb_min:12", "midrange oneplus12"),
        ("soc:GS301,tag:slow", "midrange pixel8"),
        ("any:tag:bench,pixel8", "midrange oneplus12 pixel8"),
    ],
)
def test_terms_join(selector: str, names: str) -> None:
    assert " ".join(d.name for d in select(PHONES, selector)) == names


@pytest.mark.parametrize(
    ("selector", "message", "remedy"),
    [
        ("onplus12", "no phone is called 'onplus12'", "Did you mean oneplus12?"),
        ("zzz", "no phone is called 'zzz'", "There is: oneplus12 (soc:SM8650, 16 GB, tag:bench)"),
        ("soc:sm9999", "matches no phone", "soc:GS301, 8 GB"),
        ("ram_gb_min:64", "matches no phone", "There is"),
        ("ram_gb_min:lots", "'lots' is not a number", "ram_gb_min:12"),
        ("sco:sm8650", "'sco' is not a selector", "Did you mean soc:sm8650?"),
        ("drawer", "'drawer' is retired", "Register it again"),
        ("any,pixel8", "'any' stands alone", "any:pixel8"),
        (" , ", "selects nothing", "There is"),
        ("pixel8,zzz", "no phone is called 'zzz'", "There is"),
    ],
)
def test_what_means_nothing_is_refused_with_a_way_out(selector: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as error:
        select(PHONES, selector)
    assert message in error.value.message
    assert remedy in error.value.remedy


def test_without_phones_it_says_how_to_register_one() -> None:
    with pytest.raises(ConfigError, match="no phone is registered") as error:
        select(PHONES[3:], "each")
    assert "lever phones register" in error.value.remedy


def test_each_or_any() -> None:
    assert [any_one(s) for s in ("any", "any:soc:x", " any ", "each", "anyphone", "soc:any")] == [True] * 3 + [
        False
    ] * 3
