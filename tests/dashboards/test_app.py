from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.fakes import mlflow_store, sweeps

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's server warns of its own future on import


@pytest.fixture
def uri(empty_store: Path, tmp_path: Path) -> str:
    return mlflow_store.copy(empty_store, tmp_path)


@pytest.fixture
def client(uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The app that `mlflow server --app-name lever` serves, over this test's store."""
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
    from mlflow.server import handlers

    from dashboards.app import create_app

    monkeypatch.setattr(handlers, "_tracking_store", None)
    yield TestClient(create_app(), base_url="http://localhost")
    opened: Any = handlers._get_tracking_store()
    opened.engine.dispose()


def test_an_empty_store_says_how_to_get_data(client: TestClient) -> None:
    answer = client.get("/lever")
    assert answer.status_code == 200
    assert "lever sweep -m engine=autoregressive,chain" in answer.text
    assert "make demo" in answer.text


def test_repeats_show_their_ratios_with_intervals(client: TestClient, uri: str, tmp_path: Path) -> None:
    registry, _ = sweeps.repeated()
    sweeps.log(registry, uri, tmp_path / "artifacts")
    text = client.get("/lever").text
    assert "95 % interval" in text
    assert "2.10×" in text
    assert "3 × 1" in text


def test_the_sweeps_table_and_chart(client: TestClient, uri: str, tmp_path: Path) -> None:
    registry, sweep = sweeps.ran()
    sweeps.log(registry, uri, tmp_path / "artifacts")
    text = client.get("/lever").text
    for word in ("two-phones", "oneplus12 (virtual)", "pixel8 (virtual)", "chain k=5", "exact 32/32, ties 0"):
        assert word in text
    assert "5 done, 1 failed" in text
    assert "DIVERGED@17" in text
    assert "void: diverged" in text
    assert "no space left on /data" in text
    assert "power model" in text
    run_id = registry.tracking_run_id(sweep.sweep_id, "pixel8-chain")
    assert re.search(rf'href="/#/experiments/\d+/runs/{run_id}"', text)
    assert '"acceptance_length"' not in text
    assert 'id="figure"' in text
    # the baseline stands first, whichever ran first
    assert text.index(">autoregressive</a>") < text.index(">chain k=5</a>")


def test_a_sweep_is_picked_by_name_and_an_unknown_one_is_404(client: TestClient, uri: str, tmp_path: Path) -> None:
    registry, _ = sweeps.ran("first one")
    sweeps.log(registry, uri, tmp_path / "artifacts")
    assert "<h1>first one</h1>" in client.get("/lever", params={"sweep": "first one"}).text
    missing = client.get("/lever", params={"sweep": "<b>nope"})
    assert missing.status_code == 404
    assert "There is no sweep named “&lt;b&gt;nope”" in missing.text
    assert ">first one</option>" in missing.text


def test_hostile_names_are_text(client: TestClient, uri: str, tmp_path: Path) -> None:
    registry, _ = sweeps.ran()
    sweep = sweeps.hostile(registry)
    sweeps.log(registry, uri, tmp_path / "artifacts")
    answer = client.get(f"/lever?sweep={quote(sweep.name)}")
    assert html.escape(sweep.name, quote=False).replace("'", "&#39;") in answer.text
    assert sweeps.HOSTILE not in answer.text
    assert "<script>document" not in answer.text
    assert "<img" not in answer.text
    assert "{{ 7 * 7 }}" in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]  # default-src 'self' holds for scripts
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_running_sweep_renews_its_page(client: TestClient, uri: str, tmp_path: Path) -> None:
    from tests.fakes import farms
    from tests.fakes import trials as fake

    registry = farms.farm()
    farms.submit(registry, "fresh", [fake.spec("a")])
    sweeps.log(registry, uri, tmp_path / "artifacts")
    text = client.get("/lever").text
    assert 'http-equiv="refresh"' in text
    assert "No trial has ended yet" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/lever/static/lever.css", 200),
        ("/lever/static/lever.js", 200),
        ("/lever/static/plotly.min.js", 200),
        ("/lever/static/../app.py", 404),
        ("/lever/static/..%2fapp.py", 404),
        ("/", 200),  # MLflow's own UI
        ("/health", 200),
    ],
)
def test_what_is_served(client: TestClient, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_other_host_names_are_refused(client: TestClient) -> None:
    assert client.get("/lever", headers={"host": "evil.example"}).status_code == 403


def test_making_the_app_twice_adds_its_routes_once(client: TestClient) -> None:
    from dashboards.app import create_app

    assert sum(getattr(r, "path", "") == "/lever" for r in create_app().router.routes) == 1
