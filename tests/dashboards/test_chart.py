from __future__ import annotations

import dataclasses

import pytest

from dashboards import chart
from orchestrator.table import Row

ROW = Row("t", "done", "a", "pair", "chain k=5", "flash", metrics={chart.X: 4.0, chart.Y: 2.0})


@pytest.mark.parametrize(
    ("tags", "marking"),
    [
        ({}, "measured"),
        ({"simulated": "virtual-phone", "verdict": "valid"}, "simulated"),
        ({"simulated": "virtual-phone", "exactness": "DIVERGED@3"}, "void"),
        ({"void.tpot_s": "throttled"}, "void"),
        ({"void.energy_j_per_token": "charging"}, "measured"),
    ],
)
def test_marking(tags: dict[str, str], marking: str) -> None:
    assert chart.marking(dataclasses.replace(ROW, tags=tags)) == marking


def test_a_phone_keeps_its_colour_and_void_points_stand_apart() -> None:
    void = dataclasses.replace(ROW, tags={"void.tpot_s": "hot"})
    other = dataclasses.replace(ROW, phone="b")
    data = chart.figure([ROW, void, other])["data"]
    assert [t["name"] for t in data] == ["a", "a · void", "b"]
    assert data[0]["marker"]["color"] == data[1]["marker"]["color"] != data[2]["marker"]["color"]
    assert data[1]["marker"]["symbol"] != data[0]["marker"]["symbol"]


def test_rows_without_a_speedup_are_left_out() -> None:
    assert chart.figure([dataclasses.replace(ROW, metrics={chart.X: 4.0})])["data"] == []


def test_plotly_gets_no_markup_of_others() -> None:
    row = dataclasses.replace(ROW, phone="<b>x", strategy="<a href='javascript:1'>y", pair="<i>", storage="&")
    trace = chart.figure([row])["data"][0]
    texts = trace["name"] + trace["text"][0] + trace["hovertext"][0].replace("<b>", "", 1).replace("</b>", "", 1)
    assert "<" not in texts.replace("<br>", "")


def test_many_points_carry_no_names() -> None:
    assert chart.figure([ROW] * 100)["data"][0]["mode"] == "markers"
