"""A pack as this device's kernels like it best: made once from the pushed one, inside its folder, used in its place.

Matrices are rewritten in the layout that ggml multiplies fastest by (kernels.layouts); what has none is linked. It is
a pack like any other. Its folder is named after the build of ggml and the CPU that it is for: others make their own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from device_agent.failure import NO_ROOM, AgentFailure
from device_agent.kernels.layout_check import working_layouts
from device_agent.kernels.layouts import GROUP, batch_step, fingerprint
from device_agent.model.contents import check
from device_agent.model.native_writer import Form, matrices, write_native
from device_agent.model.pack import Pack, open_pack

NATIVE = "native"  # folder of these, in the pushed pack's


def native_pack(folder: Path, requantize: str | None = None, filling: bool = True) -> Path:
    """The pack in `folder`, or the one that this device's kernels prefer, made now if it is not there yet.

    Lossless, unless `requantize` names a tensor type for those layers' matrices that have no layout in their own.
    Without `filling` it is not one whose batches have to be filled up (layouts.IN_FOURS): single tokens take thrice as
    long with it, which does not matter while they wait for the flash.
    Raises AgentFailure: pack_corrupt, io_error, disk_full.
    """
    pack = open_pack(folder)
    check(pack)
    home = folder / NATIVE / "-".join(filter(None, (fingerprint(), folder.name[:8], requantize)))
    if not home.is_dir() or not _whole(home):
        forms = _forms(pack, requantize)
        if not forms or not (filling or _as_they_come(form.layout for form in forms.values())):
            return folder
        with _only_one(folder / NATIVE):
            if not home.is_dir():
                _make(pack, forms, home)
        check(pack)  # links have changed its files' times: remember them so
    native = next(home.iterdir())
    return native if filling or _as_they_come(open_pack(native).layouts.values()) else folder


def _as_they_come(layouts: Iterable[str]) -> bool:
    """Whether batches of any size do."""
    return all(batch_step(layout) == 1 for layout in layouts)


def _whole(home: Path) -> bool:
    """What was damaged goes, to be made again."""
    try:
        check(open_pack(next(home.iterdir())))
    except AgentFailure:
        shutil.rmtree(home)
        return False
    return True


def _forms(pack: Pack, requantize: str | None) -> dict[str, Form]:
    found = matrices(pack)
    shapes = {(kind, spec.shape[0]) for spec in found for kind in (spec.ggml_type, requantize) if kind}
    layouts = working_layouts(shapes)
    forms: dict[str, Form] = {}
    for spec in found:
        kinds = [spec.ggml_type, *([requantize] if requantize and spec.name.startswith("blk.") else [])]
        usable = [kind for kind in kinds if spec.shape[1] % GROUP == 0 and (kind, spec.shape[0]) in layouts]
        if usable:
            forms[spec.name] = Form(usable[0], layouts[usable[0], spec.shape[0]])
    return forms


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """One process at a time makes what lies in `folder`."""
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _make(pack: Pack, forms: Mapping[str, Form], home: Path) -> None:
    """What others left, killed in the middle or for another CPU, goes."""
    for other in home.parent.iterdir():
        if not other.name.startswith(fingerprint()):
            shutil.rmtree(other)
    part = home.parent / "part"
    part.mkdir()
    try:
        write_native(pack, forms, part)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        if error.errno not in NO_ROOM:
            raise
        size = sum(extent.nbytes for extent in pack.manifest.extents) // 1_000_000
        raise AgentFailure(
            "disk_full",
            f"no room for up to {size} MB of weights as the kernels like them in {home}: engine.repack=false",
        ) from error
    part.rename(home)
