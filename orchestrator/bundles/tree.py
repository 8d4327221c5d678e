"""The folder that a phone unpacks, put together from what was fetched and built, without what the agent never reads.

bin/python3.11   lib/: the loader, Debian's libraries, python3.11/
site/: numpy and the like, sitecustomize.py   ggml/VARIANT/ggml/   licences/
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.bundles.recipe import PYTHON
from orchestrator.errors import FetchFailed

ON_PHONE = Path(__file__).parent / "on_phone"
LOADER = "ld-linux-aarch64.so.1"
LIBRARIES = (
    LOADER,
    *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
    *("libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "libexpat.so.1", "libcrypto.so.3", "libffi.so.8"),
)
# Of Python's library: what needs a library that is not here, a screen, or is for building and testing Python itself.
NO_MODULES = (
    *("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "distutils", "pydoc_data", "curses"),
    *("sqlite3", "dbm", "venv", "wsgiref", "xmlrpc", "__phello__", "config-*", "sitecustomize.py"),
    *("LICENSE.txt", "_sysconfigdata__linux_aarch64-linux-gnu.py"),  # links
)
NO_EXTENSIONS = (
    *("_test*", "_xx*", "xx*", "_codecs_*", "_multibytecodec*", "_ssl*", "_sqlite3*", "_curses*", "_dbm*", "_lzma*"),
    *("_bz2*", "_tkinter*", "readline*", "nis*", "ossaudiodev*", "_ctypes_test*", "audioop*", "_crypt*", "_uuid*"),
)
NO_NUMPY = ("tests", "f2py", "distutils", "_pyinstaller", "include", "*.pyi", "*.pxd", "*.lib", "*.a", "*.h")


def build_tree(
    tree: Path,
    debian: Path,
    packages: Mapping[str, str],
    wheels: Iterable[Path],
    binding: Path,
    ggml: Mapping[str, Path],
) -> None:
    """`binding`: the unpacked sdist of ggml-python; `ggml`: each variant's libraries. Raises FetchFailed for a part
    that is not where it has always been."""
    (tree / "bin").mkdir(parents=True)
    _copy_file(debian / "usr" / "bin" / f"python{PYTHON}", tree / "bin")
    (tree / "lib").mkdir()
    for library in LIBRARIES:
        _copy_file(_found(debian, library), tree / "lib")
    _copy_python(debian / "usr" / "lib" / f"python{PYTHON}", tree / "lib" / f"python{PYTHON}")
    for wheel in wheels:
        shutil.copytree(wheel, tree / "site", ignore=shutil.ignore_patterns(*NO_NUMPY), dirs_exist_ok=True)
    _copy_file(ON_PHONE / "sitecustomize.py", tree / "site")
    for variant, libraries in ggml.items():
        package = tree / "ggml" / variant / "ggml"
        shutil.copytree(binding / "ggml", package, ignore=shutil.ignore_patterns("contrib", "lib", "py.typed"))
        shutil.copytree(libraries, package / "lib")
    _copy_licences(tree / "licences", debian, packages, binding)


def _copy_python(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*NO_MODULES), symlinks=True)
    for pattern in NO_EXTENSIONS:
        for file in (target / "lib-dynload").glob(pattern):
            file.unlink()
    if not (target / "os.py").is_file() or not list(target.glob("lib-dynload/_ctypes.*.so")):
        raise FetchFailed(f"Debian's Python {PYTHON} lies not where it did: no os.py or _ctypes in {source}")


def _copy_licences(target: Path, debian: Path, packages: Mapping[str, str], binding: Path) -> None:
    """numpy's lie in its dist-info, beside it. Debian's packages share some by links."""
    target.mkdir()
    for name in packages:
        text = debian / "usr" / "share" / "doc" / name / "copyright"
        if not text.is_file():
            raise FetchFailed(f"Debian's package {name} has no {text.relative_to(debian)}: its licence has to go along")
        shutil.copyfile(text, target / name)
    shutil.copyfile(binding / "LICENSE.md", target / "ggml-python")
    shutil.copyfile(binding / "vendor" / "ggml" / "LICENSE", target / "ggml")


def _found(debian: Path, library: str) -> Path:
    places = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib")
    for place in places:
        if (debian / place / library).is_file():
            return debian / place / library
    raise FetchFailed(f"{library} is in none of {', '.join(places)} of Debian's packages")


def _copy_file(source: Path, folder: Path) -> None:
    """What links lead to, under the link's name."""
    if not source.is_file():
        raise FetchFailed(f"{source.name} is not where Debian's packages had it: {source}")
    shutil.copyfile(source, folder / source.name)
    (folder / source.name).chmod(source.stat().st_mode & 0o777)
