"""docker-compose.yml against the compose schema, and what the schema cannot see: references, pins, secrets, users."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.make_env import make_env
from tests.fakes import compose
from tests.fakes.compose import FILE, ROOT

RAW = compose.raw()
SERVICES: dict[str, Any] = RAW["services"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_file_keeps_to_the_compose_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_there_is_what_was_promised() -> None:
    assert set(SERVICES) == {"postgres", "mlflow", "farm"}
    farm = " ".join(SERVICES["farm"]["command"])
    assert re.findall(r"register virtual:(\w+)", farm) == ["oneplus12", "pixel8"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_exists(name: str) -> None:
    service = SERVICES[name]
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert (FILE.parent / source).exists() if source.startswith(".") else source in RAW["volumes"]
    if build := service.get("build"):
        assert (FILE.parent / build["context"] / build["dockerfile"]).is_file()
    for host in re.findall(r"(?:@|http://)([a-z]+):\d", str(service["environment"])):
        assert host in SERVICES
        assert host in service["depends_on"]


def test_every_volume_is_used() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert set(RAW["volumes"]) <= used


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_watched_and_no_root(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":\d+\.\d+", service["image"]), "no version"
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["cap_drop"] == ["ALL"]
    user = service.get("user") or re.findall(r"^USER (\w+)", DOCKERFILE, re.M)[-1]
    assert user not in ("root", "0")
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")


def test_base_images_are_pinned_to_one_version() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert len(set(bases)) == 1
    assert re.search(r":\d+\.\d+\.\d+-", bases[0])


def test_mlflow_is_asked_by_names_that_it_allows() -> None:
    command = SERVICES["mlflow"]["command"]
    allowed = next(word for word in command if word.startswith("--allowed-hosts=")).partition("=")[2].split(",")
    assert SERVICES["farm"]["environment"]["LEVER_TRACKING_URI"].removeprefix("http://") in allowed
    assert f"localhost:{SERVICES['mlflow']['ports'][0].split(':')[1]}" in allowed
    assert "--app-name=lever" in command


def test_passwords_come_from_the_env_file_alone(tmp_path: Path) -> None:
    assert make_env(tmp_path / ".env")
    made = compose.env_file(tmp_path / ".env")
    assert set(made) == compose.variables()
    assert all(len(value) >= 32 for value in made.values())
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert not make_env(tmp_path / ".env")
    assert compose.env_file(tmp_path / ".env") == made
    assert make_env(tmp_path / "other")
    assert compose.env_file(tmp_path / "other") != made
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            assert "PASSWORD" not in name or compose.VARIABLE.fullmatch(value), "a password in the file"
            assert not re.search(r"//\w+:(?!\$\{)[^@]+@", value), "a password in the file"
    ignored = subprocess.run(["git", "check-ignore", ".env"], cwd=ROOT, capture_output=True, check=False)
    assert ignored.returncode in (0, 128), "git would take .env"  # 128: no git here
