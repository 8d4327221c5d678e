from pathlib import Path

import pytest

from benchmarks.cell import Measured
from benchmarks.shelf import Shelf
from tests.fakes.measured import measured


def test_what_is_put_is_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "not yet there")
    assert shelf.find(Measured, "k") is None
    shelf.put("k", measured())
    assert Shelf(shelf.folder).find(Measured, "k") == measured()


@pytest.mark.parametrize("damage", ["", "{", '{"label": 3}', "[]"])
def test_what_is_damaged_is_measured_again(tmp_path: Path, damage: str) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("k", measured())
    (tmp_path / "k.json").write_text(damage)
    assert shelf.find(Measured, "k") is None
