import json
import multiprocessing
import stat
from multiprocessing.synchronize import Event
from pathlib import Path

from orchestrator.run_files import locked, read_json, write_json


def test_written_whole_and_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "run" / "it.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["it.json"]


def test_what_is_not_ours_reads_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    assert read_json(path) is None
    for text in ("", "{", json.dumps([1])):
        path.write_text(text)
        assert read_json(path) is None


def test_one_holder_at_a_time_and_the_kernel_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "it.lock"
    spawn = multiprocessing.get_context("spawn")
    held = spawn.Event()
    holder = spawn.Process(target=_hold, args=(path, held))
    holder.start()
    assert held.wait(20)
    with locked(path, wait=False) as ours:
        assert not ours
    holder.kill()
    with locked(path) as ours:
        assert ours
    holder.join()
    holder.close()


def _hold(path: Path, held: Event) -> None:
    with locked(path):
        held.set()
        held.wait()
        while True:
            multiprocessing.Event().wait()
