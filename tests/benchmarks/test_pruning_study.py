"""The study of pruning on texts that the test makes up: what drafters would have said, and the figures' shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.prompts import all_prompts
from benchmarks.pruning import dataset, study
from benchmarks.pruning.prompts import study_prompts
from orchestrator.models.predictor_fit import fit_predictor
from orchestrator.models.pruning_worth import all_trees, pruning_worth

D = 8


def write(folder: Path, name: str, prompt: list[int], output: list[int], seed: int) -> None:
    """The draft's six best tokens are the right one, in the place that a coin says, and five others."""
    rng, n = np.random.default_rng(seed), len(output)
    probs = np.sort(rng.dirichlet([0.5] * 6, n))[:, ::-1].astype(np.float32)
    tokens = np.array([[token, *range(200, 205)] for token in output], np.int32)
    for row in np.flatnonzero(rng.random(n) < 0.3):
        tokens[row, [0, 1]] = tokens[row, [1, 0]]
    arrays = {"full_tokens": tokens, "full_probs": probs, "prompt": np.array(prompt), "output": np.array(output)}
    for state in ("layer_14", "final"):
        arrays[state] = rng.standard_normal((n, D)).astype(np.float16)
    np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]  # numpy's stub


@pytest.fixture
def texts(tmp_path: Path) -> list[dataset.Text]:
    for index in range(4):
        write(tmp_path, f"t{index}", [1, 2, 3, 4, 9], [1, 2, 3, 4, 5, 1, 2, 3, 4, 5] * 6, index)
    return dataset.load(tmp_path)


def test_places_are_all_emitted_tokens_but_the_first(texts: list[dataset.Text]) -> None:
    drafted = dataset.by_model(texts, "full")
    assert drafted.tokens.shape == (4 * 59, 6)
    assert drafted.hits.sum(axis=1).tolist() == [1] * (4 * 59)
    assert drafted.hits[:, 0].mean() == pytest.approx(0.7, abs=0.08)
    assert np.bincount(dataset.text_numbers(texts)).tolist() == [59] * 4


def test_lookups_find_what_followed_before(texts: list[dataset.Text]) -> None:
    """Prompt 1 2 3 4 9: at first 4 was followed by 9, from the second time on by 5, and 5 by 1."""
    first = dataset.by_lookup(texts[:1])
    assert first.tokens[:9, 0].tolist() == [2, 3, 4, 9, 0, 2, 3, 4, 5]
    assert first.hits[:9, 0].tolist() == [True, True, True, False, False, True, True, True, True]
    assert first.hits[9:, 0].all()


def test_where_people_wrote_the_text_rounds_begin_anew_after_their_own_words(texts: list[dataset.Text]) -> None:
    """The target would have said 1 2 3 4 5 …; people wrote 7 in place of its third token."""
    written = texts[0]["output"].copy()
    written[2] = 7
    drafted = dataset.by_model(texts[:1], "full")
    data = dataset.recorded([texts[0] | {"text": written}], drafted, 14, lambda tokens: np.ones((len(tokens), D), "f4"))
    assert np.flatnonzero(data.begins).tolist() == [0, 2]
    assert dataset.by_lookup([texts[0] | {"text": written}]).tokens[2, 0] == 0, "7 never came before"


def test_figures_come_for_every_regime(texts: list[dataset.Text], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "DRAFTERS", {"full": 1.0, "lookup": 0.0})
    drafted = dataset.by_model(texts, "full")
    rng = np.random.default_rng(0)
    data = dataset.recorded(texts, drafted, 14, lambda tokens: rng.standard_normal((len(tokens), D)).astype(np.float32))
    fit = fit_predictor(data, 4)
    trees = all_trees(data, fit.predicted, 0.99)
    seen = [
        pruning_worth(trees, 14, 0.5, one.costs(1.0)) for one in study.regimes({"rows": study.KERNELS["rows"]}, 0.02)
    ]
    assert len(seen) == 9
    assert all(one.headroom >= max(1.0, one.speedup) - 1e-9 for one in seen)
    row = {"drafter": "full", "layer": 14, "regime": "r", "known_auc": 0.9, "auc": 0.9, "recall": None, "removed": None}
    assert "perfect 1.010" in study.line(
        row | {"known_removed": None, "speedup": 1, "headroom": 1.01, "plain": {"nodes": 3}}
    )

    rows = list(study.headrooms(texts, {"rows": study.KERNELS["rows"]}))
    assert len(rows) == 2 * 9
    assert all(list(row["perfect"].values()) == sorted(row["perfect"].values(), reverse=True) for row in rows)
    assert "after layer 1: " in study.headroom_line(rows[0])


def test_no_evaluated_prompt_is_studied() -> None:
    code, chat = all_prompts()
    studied = {prompt.text for prompt in study_prompts()}
    assert len(studied) == len(study_prompts()) > 60
    assert not studied & {prompt.text for prompt in (*code, *chat)}
