"""Decoding one request: prefill, then rounds of propose, verify, emit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from device_agent.engine.emission import Emission
from device_agent.engine.metrics import request_times
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.sampling import greedy, top_tokens
from device_agent.engine.strategy import Room, build_strategy
from device_agent.engine.trace import RoundSpan, read_counters, trace_round
from device_agent.engine.verifier import Verifier
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec, PromptSpec, RequestResult, RoundTrace

OnRound = Callable[[RoundTrace], None]


class Engine:
    """One target, perhaps a draft, one strategy. Runs requests one after another; does not close the models."""

    def __init__(self, target: Transformer, draft: Transformer | None, spec: EngineSpec) -> None:
        if draft is not None and draft.n_ctx < target.n_ctx:
            raise AgentFailure("bad_spec", f"the draft's KV holds {draft.n_ctx} tokens, the target's {target.n_ctx}")
        self._target = target
        self._verifier = Verifier(target)
        self._strategy = build_strategy(spec, draft)

    def run_request(
        self,
        prompt: PromptSpec,
        max_new_tokens: int,
        stop_token_ids: Sequence[int],
        on_round: OnRound | None = None,
    ) -> RequestOutcome:
        """Decode greedily until a stop token (emitted too), the limit, or a full KV cache.

        Raises AgentFailure: bad_spec for a prompt that does not fit, nan_logits, and what the weight source raises.
        """
        self._check(prompt, max_new_tokens)
        start_s = perf_counter()
        self._strategy.begin(prompt.token_ids)
        logits = self._verifier.begin(prompt.token_ids)
        emission = Emission(max_new_tokens, frozenset(stop_token_ids))
        emission.add([greedy(logits, self._target.name)])
        first_s = perf_counter()
        top5 = top_tokens(logits, 5)
        rounds = self._decode(prompt.id, emission, on_round)
        end_s = perf_counter()
        times = request_times(first_s - start_s, end_s - first_s, len(emission.choices), rounds)
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
        return RequestOutcome(result, tuple(rounds), first_s, end_s)

    def _decode(self, request: str, emission: Emission, on_round: OnRound | None) -> list[RoundTrace]:
        rounds: list[RoundTrace] = []
        while emission.stop_reason is None and self._verifier.cache.room > 0:
            rounds.append(self._round((request, len(rounds)), emission))
            if on_round is not None:
                on_round(rounds[-1])
        return rounds

    def _round(self, name: tuple[str, int], emission: Emission) -> RoundTrace:
        start, cache = read_counters(self._target), self._verifier.cache
        spare = cache.room - 1  # the root takes one slot
        proposal = self._strategy.propose(emission.last, Room(min(emission.remaining - 1, spare), spare))
        drafted_s, n_kv = perf_counter(), cache.length + len(proposal.tree)
        verdict = self._verifier.verify(proposal.tree)
        emitted = emission.add(verdict.choices)
        self._strategy.settle(proposal.tree, verdict.path)
        span = RoundSpan(start, drafted_s, read_counters(self._target))
        return trace_round(span, name, proposal, min(emitted, len(verdict.path) - 1), n_kv)

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
