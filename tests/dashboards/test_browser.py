"""`lever dashboard` as a person meets it: the real command, the real page, a real browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.fakes import mlflow_store, sweeps

pytestmark = pytest.mark.slow
FLAGS = (
    "--headless",
    "--no-sandbox",  # containers have no user namespaces
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
    "--dump-dom",
)


@pytest.fixture(scope="module")
def home(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    registry, _ = sweeps.ran()
    sweeps.hostile(registry)
    sweeps.log(registry, mlflow_store.copy(empty_store, folder), folder / "artifacts")
    return folder


@pytest.fixture(scope="module")
def process(home: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "orchestrator", "dashboard", "--no-browser"]
    environment = {**os.environ, "LEVER_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


@pytest.fixture(scope="module")
def url(process: subprocess.Popen[str]) -> str:
    """Printed once the server answers."""
    assert process.stdout
    for line in process.stdout:
        if found := re.fullmatch(r"MLflow +(http://127\.0\.0\.1:\d+)/\n", line):
            return found[1]
    pytest.fail("lever dashboard ended before it was ready")


def browse(url: str, profile: Path) -> tuple[str, str]:
    """(the page's DOM after its scripts ran, what the browser logged)."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.fail("this test needs Chromium: apt-get install chromium")
    command = [browser, *FLAGS, f"--user-data-dir={profile}", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(console)


def test_the_chart_is_drawn_from_our_own_files(url: str, tmp_path: Path) -> None:
    dom, console = browse(f"{url}/lever?sweep=two-phones", tmp_path)
    assert console == ""  # a script that fails, or that the policy forbids, would be told here
    assert 'class="main-svg"' in dom
    legend = re.findall(r'class="legendtext"[^>]*>([^<]+)<', dom)
    assert sorted(legend) == [
        "oneplus12 (virtual) · simulated",
        "oneplus12 (virtual) · void",
        "pixel8 (virtual) · simulated",
    ]
    assert dom.count('class="point"') == 5


def test_hostile_names_run_nothing(url: str, tmp_path: Path) -> None:
    dom, console = browse(f"{url}/lever?sweep={quote('evil' + sweeps.HOSTILE)}", tmp_path)
    assert console == ""
    assert "<title>evil&lt;script&gt;" in dom
    assert 'class="main-svg"' in dom


def test_mlflows_own_ui_is_at_the_same_address(url: str) -> None:
    with urllib.request.urlopen(f"{url}/", timeout=60) as answer:
        assert b"MLflow" in answer.read()
    spoofed = urllib.request.Request(f"{url}/lever", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(spoofed, timeout=60)


def test_ctrl_c_ends_it_cleanly(url: str, process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
