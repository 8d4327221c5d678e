"""A job whose choices two processors have to share."""

from __future__ import annotations

from device_agent.protocol import PROTOCOL_VERSION, EngineSpec, JobResult, JobSpec, PromptSpec, StorageSpec
from orchestrator.models.tiny_model import CONTEXT

PROMPTS = ((1, 2, 3), (4, 0, 1, 3, 2, 2, 0, 4, 1), (0,))
NEW_TOKENS = 12
TIE = 0.5  # of logits that spread over 28: 0.02 of it, as at registration; measured: 0.3


def streamed_job(pack: str, packs_dir: str) -> JobSpec:
    """Weights from flash, so that reading is part of it; its exactness is checked by teacher forcing, on the phone."""
    engine = EngineSpec(storage=StorageSpec("flash"), threads=1, n_ctx=CONTEXT)
    prompts = tuple(PromptSpec(str(index), ids) for index, ids in enumerate(PROMPTS))
    return JobSpec(PROTOCOL_VERSION, "one", "arm64", pack, None, engine, prompts, NEW_TOKENS, (), packs_dir=packs_dir)


def choices_agree(there: JobResult, here: JobResult) -> None:
    """The same tokens, up to the first choice that was a tie here: after it the texts have different pasts."""
    for theirs, ours in zip(there.requests, here.requests, strict=True):
        pairs = zip(theirs.output_ids, ours.output_ids, strict=True)
        first = next((index for index, (one, other) in enumerate(pairs) if one != other), None)
        gap = 0.0 if first is None else ours.margins[first] + theirs.margins[first]
        assert gap <= TIE, (ours.id, first, theirs.output_ids, ours.output_ids)
