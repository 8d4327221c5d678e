"""The wheel, installed and used outside the checkout, from an empty folder."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("conf", "dashboards", "device_agent", "hydra_plugins", "orchestrator")
FILES = ("pyproject.toml", "README.md", "LICENSE")
DATA = {".py", ".yaml", ".json", ".mako", ".html", ".css", ".js"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout stays as it is."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def lever(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script in an environment that has our dependencies, but not the checkout."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A path named here is importable, but its own .pth files (an editable install's) do not count.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--ignore-installed", "--disable-pip-version-check", str(wheel)], check=True)
    where = [
        str(python),
        "-c",
        "import orchestrator, hydra_plugins.lever_farm as p; print(orchestrator.__file__, p.__file__)",
    ]
    imported = subprocess.run(where, check=True, capture_output=True, text=True, cwd=folder).stdout
    assert imported.count(str(folder)) == 2, f"not the wheel's: {imported}"
    return folder / "bin" / "lever"


def run(lever: Path, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """In an empty folder, with a state folder beside it."""
    here = folder / "empty"
    here.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LEVER"))}
    env["LEVER_HOME"] = str(folder / "home")
    done = subprocess.run(
        [str(lever), *args], check=False, cwd=here, env=env, capture_output=True, text=True, timeout=120
    )
    assert list(here.iterdir()) == [], "left something in the user's folder"
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_every_module_and_data_file_is_in_the_wheel(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES[1:]
        for path in (ROOT / name).rglob("*")
        if path.suffix in DATA and "__pycache__" not in path.parts
    }
    conf = {f"orchestrator/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert (files | conf) - packed == set()


def test_help_and_the_composed_configuration_come_from_the_wheel(lever: Path, tmp_path: Path) -> None:
    done = run(lever, tmp_path, "sweep", "--cfg", "job", "engine=chain")
    assert done.returncode == 0, done.stderr
    assert "strategy: chain" in done.stdout
    shown = subprocess.run([str(lever), "--help"], capture_output=True, text=True, check=True)
    assert "sweep" in shown.stdout


def test_a_multirun_is_checked_whole_and_refused_with_the_remedy(lever: Path, tmp_path: Path) -> None:
    done = run(lever, tmp_path, "sweep", "-m", "engine=autoregressive,chain", "engine.drafting.k=3,5")
    assert done.returncode == 2
    assert "job #0 (engine=autoregressive engine.drafting.k=3): model pair 'qwen-coder' is not added" in done.stderr
    assert "lever models add qwen-coder" in done.stderr
    assert not (tmp_path / "home" / "sweeps").exists()


def test_the_registry_is_made_by_the_migrations_of_the_wheel(lever: Path, tmp_path: Path) -> None:
    done = run(lever, tmp_path, "phones", "register", "127.0.0.1:1", "--name", "nobody")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stdout + done.stderr
    assert (tmp_path / "home" / "registry.db").is_file()
