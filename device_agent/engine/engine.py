"""Decoding one request: prefill, then rounds of propose, verify, emit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from device_agent.engine.emission import Emission
from device_agent.engine.metrics import request_times
from device_agent.engine.outcome import RequestOutcome, VerifiedTree
from device_agent.engine.sampling import GREEDY, Choice, Sampler, check_sampling, top_tokens
from device_agent.engine.strategy import Adaptive, Conditions, Room, build_strategy
from device_agent.engine.trace import RoundSpan, read_counters, trace_round
from device_agent.engine.verifier import Verifier
from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec, PromptSpec, RequestResult, RoundTrace, SamplingSpec

OnRound = Callable[[RoundTrace, Emission], None]  # a round, and all that is emitted


@dataclass
class _Decoding:
    """A request under way."""

    request: str
    sampler: Sampler
    emission: Emission
    rounds: list[RoundTrace] = field(default_factory=list)
    trees: list[VerifiedTree] = field(default_factory=list)


class Engine:
    """One target, perhaps a draft, one strategy. Runs requests one after another; does not close the models."""

    def __init__(
        self,
        target: Transformer,
        draft: Transformer | None,
        spec: EngineSpec,
        sampling: SamplingSpec = GREEDY,
        conditions: Conditions | None = None,
    ) -> None:
        if draft is not None and draft.n_ctx < target.n_ctx:
            raise AgentFailure("bad_spec", f"the draft's KV holds {draft.n_ctx} tokens, the target's {target.n_ctx}")
        check_sampling(sampling)
        self._target, self._draft = target, draft
        self._sampling = sampling
        self._trace_nodes = spec.trace_nodes
        self._verifier = Verifier(target)
        self._strategy = build_strategy(spec, draft, conditions or Conditions(target))

    def run_request(
        self,
        prompt: PromptSpec,
        max_new_tokens: int,
        stop_token_ids: Sequence[int],
        on_round: OnRound | None = None,
    ) -> RequestOutcome:
        """Decode until a stop token (emitted too), the limit, or a full KV cache.

        Raises AgentFailure: bad_spec for a prompt that does not fit, nan_logits, and what the weight source raises.
        """
        self._check(prompt, max_new_tokens)
        start_s = perf_counter()
        self._strategy.begin(prompt.token_ids)
        logits = self._verifier.begin(prompt.token_ids)
        emission = Emission(max_new_tokens, frozenset(stop_token_ids))
        sampler = Sampler(self._sampling, prompt.id, self._target.name)
        emission.add([sampler.choose(logits, 0)])
        first_s = perf_counter()
        top5 = top_tokens(logits, 5)
        decoding = _Decoding(prompt.id, sampler, emission)
        self._decode(decoding, on_round)
        end_s = perf_counter()
        times = request_times(first_s - start_s, end_s - first_s, len(emission.choices), decoding.rounds)
        result = RequestResult(
            id=prompt.id,
            prompt_tokens=len(prompt.token_ids),
            output_ids=tuple(choice.token for choice in emission.choices),
            margins=tuple(choice.margin for choice in emission.choices),
            stop_reason=emission.stop_reason or "kv_full",
            top5_after_prompt=top5,
            exactness=None,
            **times,
        )
        return RequestOutcome(result, tuple(decoding.rounds), first_s, end_s, tuple(decoding.trees))

    def report(self) -> dict[str, Any]:
        """What the strategy's decisions rested on, for JobResult.plan."""
        return self._strategy.report() if isinstance(self._strategy, Adaptive) else {}

    def _decode(self, decoding: _Decoding, on_round: OnRound | None) -> None:
        while decoding.emission.stop_reason is None and self._verifier.cache.room > 0:
            self._round(decoding)
            if on_round is not None:
                on_round(decoding.rounds[-1], decoding.emission)

    def _round(self, decoding: _Decoding) -> None:
        start, cache, emission = read_counters(self._target, self._draft), self._verifier.cache, decoding.emission
        spare, emitted = cache.room - 1, len(emission.choices)  # the root takes one slot
        proposal = self._strategy.propose(emission.last, Room(min(emission.remaining - 1, spare), spare))
        drafted_s, n_kv = perf_counter(), cache.length + len(proposal.tree)

        def choose(logits: Floats, depth: int) -> Choice:
            return decoding.sampler.choose(logits, emitted + depth)

        verdict = self._verifier.verify(proposal.tree, choose, proposal.pruner)
        accepted = min(emission.add(verdict.choices), len(verdict.path) - 1)
        self._strategy.settle(proposal.tree, verdict.path)
        span = RoundSpan(start, drafted_s, read_counters(self._target, self._draft))
        name = (decoding.request, len(decoding.rounds))
        decoding.rounds.append(trace_round(span, name, proposal, len(verdict.pruned_at), accepted, n_kv))
        if isinstance(self._strategy, Adaptive):
            self._strategy.observe(decoding.rounds[-1])
        if self._trace_nodes:
            path = verdict.path[: accepted + 1]
            decoding.trees.append(VerifiedTree(proposal.tree, path, emitted - 1, verdict.pruned_at))

    def _check(self, prompt: PromptSpec, max_new_tokens: int) -> None:
        n, n_vocab = len(prompt.token_ids), self._target.source.manifest.hyper.n_vocab
        if not 1 <= n <= self._target.n_ctx:
            what = f"prompt {prompt.id!r} has {n} tokens, and n_ctx={self._target.n_ctx} KV slots must hold at least it"
            raise AgentFailure("bad_spec", what)
        if strange := [token for token in prompt.token_ids if not 0 <= token < n_vocab]:
            what = f"prompt {prompt.id!r} has token id {strange[0]}, but {self._target.name} knows 0 to {n_vocab - 1}"
            raise AgentFailure("bad_spec", what)
        if max_new_tokens < 1:
            raise AgentFailure("bad_spec", f"max_new_tokens={max_new_tokens}, but a request emits at least 1 token")
