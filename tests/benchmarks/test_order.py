from benchmarks.order import rotated


def test_everybody_is_first_once() -> None:
    turns = [rotated("abc", turn) for turn in range(4)]
    assert ["".join(turn) for turn in turns] == ["abc", "bca", "cab", "abc"]


def test_nobody_is_nothing() -> None:
    assert rotated([], 3) == []
