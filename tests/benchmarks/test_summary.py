import json
from io import StringIO

import pytest
from rich.console import Console

from benchmarks.contenders import PARTS
from benchmarks.run import CAPPED, WITHOUT, Run
from benchmarks.summary import NO_PART, spreads, summary
from benchmarks.table import TARGETS, print_summary
from benchmarks.tuning import CHAIN, EQUAL, LEVER, PLAIN, TREE
from tests.fakes.measured import measured

TIMES = {PLAIN: 1.2, CHAIN: 0.3, TREE: 0.28, PLAIN + EQUAL: 1.0, CHAIN + EQUAL: 0.24, TREE + EQUAL: 0.22, LEVER: 0.2}
SETS = {"code-1": 1.0, "chat-2": 2.0, "code-3": 0.5}


def whole_run() -> Run:
    run = Run(python_share=0.03, complete=True)
    times = TIMES | {WITHOUT + part: 0.3 for part in PARTS}
    for prompts, factor in SETS.items():
        for condition in CAPPED:
            for name, seconds in times.items():
                run.add(condition.name, name, prompts, measured(seconds * factor))
        for name, seconds in {PLAIN: 0.1, CHAIN: 0.08, LEVER: 0.08}.items():
            run.add("resident", name, prompts, measured(seconds * factor))
        run.llama_s[prompts] = 0.095 * factor
    return run


def test_engine_json_holds_the_figures_by_their_names() -> None:
    found = summary(whole_run(), [measured()])
    for name in ("cap_500", "cap_1000"):
        condition = found[name]
        assert condition.keys() == {"as_practised", "equal_features", "pipeline_efficiency"}
        assert condition["as_practised"] == pytest.approx(
            {"over_autoregressive": 6.0, "over_chain": 1.5, "over_static_tree": 1.4}
        )
        assert condition["equal_features"] == pytest.approx(
            {"over_autoregressive": 5.0, "over_chain": 1.2, "over_static_tree": 1.1}
        )
        assert condition["pipeline_efficiency"] == 0.9
        assert found["ablation"][name] == pytest.approx(dict.fromkeys(PARTS, 1.5))
        assert found["headroom"][name].keys() == {"free_drafting", "perfect_pruning", "perfect_tree"}
    assert found["plain_over_bound"]["cap_500"] == pytest.approx(1.2 / (0.01 + 0.1))  # 5 MB at 500 MB/s, and projecting
    assert found["resident"] == pytest.approx({"over_llama_cpp": 0.95, "lever_over_best": 1.0})
    assert found["python_share"] == 0.03
    assert found["absent"] == {}
    json.dumps(found, allow_nan=False)


def test_ties_are_apart_and_what_diverged_is_named() -> None:
    good = summary(Run(), [measured(), measured()])
    assert (good["exact_fraction"], good["tie_tokens"], good["diverged"]) == (1.0, 2, [])
    bad = summary(Run(), [measured(), measured(label="cap_500 · chain", diverged=5)])
    assert bad["exact_fraction"] == pytest.approx(15 / 20)
    assert bad["diverged"] == ["cap_500 · chain: DIVERGED@3"]


def test_what_was_not_measured_is_absent_with_a_reason() -> None:
    run = whole_run()
    run.llama_s.clear()
    del run.cells["cap_1000"][LEVER]
    found = summary(run, [measured()])
    assert "over_llama_cpp" not in found["resident"]
    assert "LLAMA_CPP" in found["absent"]["resident.over_llama_cpp"]
    assert "cap_1000" not in found
    assert "cap_1000.as_practised.over_chain" in found["absent"]


def test_a_part_that_could_not_be_switched_off_is_absent_with_a_reason() -> None:
    run = whole_run()
    del run.cells["cap_500"][WITHOUT + "pruning"]
    found = summary(run, [measured()])
    assert found["absent"] == {"ablation.cap_500.pruning": NO_PART}
    assert "pruning" in found["ablation"]["cap_1000"]


def test_an_empty_run_says_that_all_is_absent() -> None:
    assert summary(Run(), [])["absent"].keys() == {*TARGETS, "python_share"}


def test_the_print_shows_figures_goals_and_alarms() -> None:
    run = whole_run()
    found = summary(run, [measured(label="cap_500 · chain", diverged=5)])
    out = StringIO()
    print_summary(Console(file=out, width=160), spreads(run), found)
    text = out.getvalue()
    assert "DIVERGED" in text
    row = next(line for line in text.splitlines() if "cap_500.as_practised.over_chain" in line)
    assert "1.50" in row
    assert "≥ 1.5" in row
