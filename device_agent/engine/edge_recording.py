"""What the acceptance of a draft's tokens is learnt from: an emitted text, and what the draft would have said along it.

A child's chances are those *given that its parent was accepted*, and along the emitted text every parent was. So one
pass of the draft over the text shows all that rounds could have shown of it; their depths are those of the rounds run.
"""

from __future__ import annotations

from collections.abc import Iterator

from device_agent.engine.draft_tree import CHILDREN
from device_agent.engine.edges import edge_features
from device_agent.engine.exactness import reference_rows
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.sampling import likely_tokens
from device_agent.model.transformer import Transformer
from device_agent.protocol import EdgeTrace, PromptSpec


def edge_traces(draft: Transformer, prompt: PromptSpec, outcome: RequestOutcome) -> Iterator[EdgeTrace]:
    """One for each output token but the first, which no round chose. Overwrites the draft's KV cache.

    Raises AgentFailure nan_logits naming the draft.
    """
    output = outcome.result.output_ids
    rows = reference_rows(draft, prompt.token_ids, output)
    depths = [depth for trace in outcome.rounds for depth in range(1, trace.acceptance_length + 1)]
    next(rows)
    for token, depth, row in zip(output[1:], depths, rows, strict=False):
        children = likely_tokens(row, CHILDREN, True, draft.name)
        features = edge_features([prob or 0.0 for _, prob in children], depth)
        tokens = [child for child, _ in children]
        chosen = tokens.index(token) if token in tokens else -1
        yield EdgeTrace(prompt.id, tuple(map(tuple, features.tolist())), chosen, tuple(tokens))
