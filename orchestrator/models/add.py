"""Adding a pair: fetch both models, check that they fit, pack them, keep the tokenizer, record the pair last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ModelError
from orchestrator.models.architecture import checked_params
from orchestrator.models.catalogue import CataloguedPair
from orchestrator.models.gguf_file import GgufFile, open_gguf
from orchestrator.models.packer import pack
from orchestrator.models.sources import FileSource, LocalGguf, PackageSource, Report, Source
from orchestrator.models.store import ModelStore, Pair
from orchestrator.models.tokenizer_build import save_tokenizer
from orchestrator.models.verify import is_whole
from orchestrator.models.vocabulary import Vocabulary, check_pair, read_vocabulary


@dataclass(frozen=True)
class _Opened:
    gguf: GgufFile
    sha256: str
    vocabulary: Vocabulary


def add_catalogued(store: ModelStore, entry: CataloguedPair, report: Report) -> Pair:
    """Fetch and pack a pair of the catalogue, unless it is there and whole. Raises FetchFailed, ModelError."""
    with store.changing():
        if is_whole(store, entry.name, report):
            return store.pair(entry.name)
        target = PackageSource(entry.target)
        draft = target if entry.draft is None else PackageSource(entry.draft)
        return _add(store, entry.name, target, draft, report)


def add_files(store: ModelStore, name: str, target: Path, draft: Path, report: Report) -> Pair:
    """Pack the user's own GGUFs as pair `name`. Raises ModelError, also when `name` is taken by other files."""
    sources = FileSource(target.absolute()), FileSource(draft.absolute())
    with store.changing():
        if store.has_pair(name):
            pair = _same_files(store, name, [source.fetch(store.downloads, report) for source in sources])
            if is_whole(store, name, report):
                return pair
        return _add(store, name, *sources, report)


def _add(store: ModelStore, name: str, target: Source, draft: Source, report: Report) -> Pair:
    opened = _open(target.fetch(store.downloads, report), report)
    self_draft = draft == target
    drafter = opened if self_draft else _open(draft.fetch(store.downloads, report), report)
    check_pair(opened.vocabulary, drafter.vocabulary)
    target_pack = _pack(store, opened, report)
    draft_pack = target_pack if self_draft else _pack(store, drafter, report)
    save_tokenizer(opened.vocabulary, store.tokenizer_dir(target_pack))
    pair = Pair(
        name=name,
        target_pack=target_pack,
        draft_pack=draft_pack,
        target_model=store.manifest(target_pack).model_name,
        draft_model=store.manifest(draft_pack).model_name,
        stop_token_ids=opened.vocabulary.stop_ids,
    )
    store.save(pair)
    for source in (target, draft):
        source.release(store.downloads)
    return pair


def _open(local: LocalGguf, report: Report) -> _Opened:
    """Parsed and found to be a model that the kernels compute, before anything is written."""
    title, nbytes = f"read {local.path.stem}", local.path.stat().st_size
    report(title, 0, nbytes)
    gguf = open_gguf(local.path)
    checked_params(gguf)
    vocabulary = read_vocabulary(gguf)
    report(title, nbytes, nbytes)
    return _Opened(gguf, local.sha256, vocabulary)


def _pack(store: ModelStore, opened: _Opened, report: Report) -> str:
    total = sum(tensor.nbytes for tensor in opened.gguf.tensors.values())
    title, done = f"pack {opened.gguf.get('general.name', opened.gguf.path.stem)}", 0

    def advance(nbytes: int) -> None:
        nonlocal done
        done = min(total, done + nbytes)  # padding counts for nothing
        report(title, done, total)

    return pack(opened.gguf, opened.sha256, store.packs, advance)


def _same_files(store: ModelStore, name: str, files: list[LocalGguf]) -> Pair:
    pair = store.pair(name)
    packed = [store.manifest(pack).source_sha256 for pack in (pair.target_pack, pair.draft_pack)]
    if packed != [file.sha256 for file in files]:
        raise ModelError(f"pair {name!r} is already added, from other files", "Choose another name.")
    return pair
