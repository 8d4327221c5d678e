"""Debian's packages for another processor, through an apt configuration of our own: the machine's stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.bundles.programs import run
from orchestrator.errors import FetchFailed

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FORMAT = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian")
CONFIGURATION = """
Dir::State "{apt}";
Dir::State::lists "lists";
Dir::State::status "/dev/null";
Dir::Cache "{apt}/cache";
Dir::Etc::sourcelist "{apt}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Sandbox::User "root";
APT::Architecture "arm64";
APT::Architectures "arm64";
"""


def fetch_debian(packages: Sequence[str], suite: str, work: Path, log: Path) -> tuple[Path, dict[str, str]]:
    """The packages unpacked into a folder in `work`, and their versions. Raises FetchFailed."""
    apt, files, root = work / "apt", work / "debs", work / "debian"
    for folder in (apt / "lists" / "partial", apt / "cache" / "archives" / "partial", files, root):
        folder.mkdir(parents=True)
    source = f"deb [arch=arm64 signed-by={KEYRING}] {_mirror(log)} {suite} main\n"
    (apt / "sources.list").write_text(source)
    (apt / "apt.conf").write_text(CONFIGURATION.format(apt=apt))
    own = {"APT_CONFIG": str(apt / "apt.conf"), "LC_ALL": "C"}
    run(["apt-get", "update", "-qq"], log, env=own)
    run(["apt-get", "download", "-qq", *packages], log, env=own, cwd=files)
    versions = {}
    for file in sorted(files.glob("*.deb")):
        run(["dpkg", "-x", file, root], log)
        name, version, _ = file.name.split("_")
        versions[name] = version.replace("%3a", ":")
    if absent := set(packages) - versions.keys():
        raise FetchFailed(f"{', '.join(sorted(absent))}: not among what apt-get downloaded", f"See {log}")
    return root, versions


def _mirror(log: Path) -> str:
    """The Debian archive that this machine's own apt uses. Raises FetchFailed."""
    addresses = _listed(log)
    if not addresses:  # a bare machine has no lists yet
        run(["apt-get", "update", "-qq"], log)
        addresses = _listed(log)
    if not addresses:
        raise FetchFailed(
            "this machine's apt knows no Debian archive (`apt-get indextargets`)",
            "Build the bundle on a Debian machine, or add a Debian mirror to apt's sources.",
        )
    return addresses[0]


def _listed(log: Path) -> list[str]:
    lines = run(["apt-get", "indextargets", *FORMAT], log).split()
    return [line for line in lines if "-security" not in line]
