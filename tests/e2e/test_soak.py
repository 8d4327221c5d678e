"""A short soak by a fixed seed: ten phones, every kind of fault (tests/soak says what is checked)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.soak.ledger import EXPLAINS
from tests.soak.soak import soak


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_a_short_soak() -> None:
    with tempfile.TemporaryDirectory(prefix="lever-soak-") as home:
        figures = soak(Path(home), seconds=90, seed=4, n_phones=10, repeats=2)
    print(json.dumps(figures, indent=2))
    assert figures["violations"] == []
    assert figures["trials"] >= 60
    assert figures["faults_landed"] >= len(EXPLAINS)
