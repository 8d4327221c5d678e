"""`lever generate`: the engine on this machine, without a farm: the quick look and the debugging tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.finite import finite
from orchestrator.cli.sampling_options import sampling_options
from orchestrator.errors import ConfigError, UsageError
from orchestrator.settings import load
from orchestrator.strategies import strategy_names

if TYPE_CHECKING:
    from device_agent.protocol import AgentEvent, EngineSpec, JobResult, JobSpec
    from orchestrator.models.store import ModelStore, Pair
    from orchestrator.models.text_stream import TextStream
    from orchestrator.models.tokenizer import ChatTokenizer
    from orchestrator.schema import EngineConf

POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("pair_name", metavar="PAIR")
@click.option("--prompt", help="Text as it is; special tokens in it count as such.")
@click.option("--chat", is_flag=True, help="Put the text into the model's chat template first.")
@click.option("--ids", help="Token ids instead of text: 1,2,3.")
@click.option("--engine", type=click.Choice(strategy_names()), default="autoregressive", show_default=True)
@click.option("--draft-k", type=int, default=5, show_default=True, help="Draft tokens a round (chain, prompt_lookup).")
@click.option("--widths", default="4,2,2,1,1", show_default=True, help="Children of each node by depth (static_tree).")
@click.option("--ngram", type=int, default=3, show_default=True, help="Tokens of the longest n-gram (prompt_lookup).")
@sampling_options
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random stream.")
@click.option("--storage", type=click.Choice(["flash", "resident", "mmap"]), default="resident", show_default=True)
@click.option(
    "--flash-bandwidth-mb-s", type=POSITIVE, callback=finite, help="Cap on reading, MB/s; default: the disk's speed."
)
@click.option("--dram-budget-mb", type=POSITIVE, callback=finite, help="Cap on the agent's memory, MB; default: none.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def generate(pair_name: str, prompt: str | None, chat: bool, ids: str | None, as_json: bool, **options: Any) -> None:
    """Decode one prompt with PAIR and print text as it comes, ids, the five best logits after the prompt, metrics."""
    from orchestrator.farm.local_agent import run_here
    from orchestrator.models.store import ModelStore
    from orchestrator.models.text_stream import TextStream

    settings = load()
    store = ModelStore(settings.models)
    pair, tokenizer = store.pair(pair_name), store.tokenizer(pair_name)
    prompt_ids = _prompt_ids(tokenizer, prompt, ids, chat)
    spec = _job(store, pair, prompt_ids, options)
    stream = TextStream(lambda ids: tokenizer.decode([token for token in ids if token not in pair.stop_token_ids]))
    with _status(None if as_json else stream) as on_event:
        result = run_here(settings, spec, on_event)
    shown = _as_json(prompt_ids, result, tokenizer, pair)
    if as_json:
        click.echo(json.dumps(shown))
    else:
        click.echo(stream.rest(shown["output_ids"]))
        _print(shown, tokenizer)


def _prompt_ids(tokenizer: ChatTokenizer, prompt: str | None, ids: str | None, chat: bool) -> tuple[int, ...]:
    if (prompt is None) == (ids is None):
        raise UsageError("give either --prompt or --ids", "For example: --prompt 'Hello' or --ids 1,2,3")
    _check_text(prompt or "")
    if ids is not None:
        found = _parse(ids, tokenizer.size)
    elif chat:
        found = tokenizer.encode_chat([{"role": "user", "content": prompt or ""}])
    else:
        found = tokenizer.encode(prompt or "")
    if not found:
        raise UsageError("the prompt has no tokens", "Give it some text.")
    return tuple(found)


def _check_text(prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError as error:  # bytes of the command line that Python could not decode
        strange = ascii(prompt[error.start : error.start + 20])
        raise UsageError(
            f"--prompt is not UTF-8 text: at character {error.start}: {strange}", "Give it as UTF-8."
        ) from None


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of numbers", "Write them with commas: 1,2,3") from None


def _parse(ids: str, size: int) -> list[int]:
    found = _numbers(ids)
    if strange := [token for token in found if not 0 <= token < size]:
        raise UsageError(f"token id {strange[0]} is not in the vocabulary", f"Ids go from 0 to {size - 1}.")
    return found


def _job(store: ModelStore, pair: Pair, prompt_ids: tuple[int, ...], options: dict[str, Any]) -> JobSpec:
    from device_agent.protocol import PROTOCOL_VERSION, JobSpec, PromptSpec
    from orchestrator.schema import SamplingConf
    from orchestrator.sweeps.jobs import engine_spec, sampling_spec, with_draft_model

    conf = _engine(options)
    engine, draft = engine_spec(conf), pair.draft_pack if with_draft_model(conf) else None
    if len(prompt_ids) > engine.n_ctx:
        raise UsageError(
            f"the prompt has {len(prompt_ids)} tokens, the KV cache holds {engine.n_ctx}", "Use a shorter prompt."
        )
    _check_memory(store, pair.target_pack, draft, engine)
    sampling = SamplingConf(**{key: options[key] for key in ("temperature", "top_k", "top_p", "min_p", "seed")})
    return JobSpec(
        version=PROTOCOL_VERSION,
        attempt_id="generate",
        trial_id="",
        target_pack=pair.target_pack,
        draft_pack=draft,
        engine=engine,
        prompts=(PromptSpec("prompt", prompt_ids),),
        max_new_tokens=options["max_new_tokens"],
        stop_token_ids=pair.stop_token_ids,
        packs_dir=str(store.packs),
        sampling=sampling_spec(sampling),
    )


def _engine(options: dict[str, Any]) -> EngineConf:
    from orchestrator.schema import DraftingConf, EngineConf, MemoryConf, StorageConf

    return EngineConf(
        strategy=options["engine"],
        drafting=DraftingConf(k=options["draft_k"], widths=_numbers(options["widths"]), ngram=options["ngram"]),
        storage=StorageConf(mode=options["storage"], flash_bandwidth_mb_s=options["flash_bandwidth_mb_s"]),
        memory=MemoryConf(dram_budget_mb=options["dram_budget_mb"]),
        trace_nodes=False,
    )


def _check_memory(store: ModelStore, target: str, draft: str | None, engine: EngineSpec) -> None:
    from device_agent.dram_plan import plan_dram
    from device_agent.failure import AgentFailure

    try:
        plan_dram(store.manifest(target), store.manifest(draft) if draft else None, engine)
    except AgentFailure as failure:
        raise ConfigError(failure.message, "Raise --dram-budget-mb, or use --storage flash.") from failure


@contextmanager
def _status(stream: TextStream | None) -> Iterator[Callable[[AgentEvent], None]]:
    """One live line on stderr about what the agent does, until `stream` has text to print."""
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:

        def on_event(event: AgentEvent) -> None:
            if event.kind == "progress" and stream is not None:
                status.stop()
                click.echo(stream.feed(event.data["output_ids"]), nl=False)
            elif event.kind == "progress":
                status.update(f"decoding: {event.data['tokens']} of up to {event.data['max_new_tokens']} tokens")
            else:
                status.update(event.kind.replace("_", " "))

        yield on_event


def _as_json(prompt_ids: tuple[int, ...], result: JobResult, tokenizer: ChatTokenizer, pair: Pair) -> dict[str, Any]:
    request = result.requests[0]
    text_ids = [token for token in request.output_ids if token not in pair.stop_token_ids]
    return {
        "pair": pair.name,
        "prompt_ids": list(prompt_ids),
        "output_ids": list(request.output_ids),
        "text": tokenizer.decode(text_ids),
        "top5_after_prompt": [list(entry) for entry in request.top5_after_prompt],
        "margins": list(request.margins),
        "stop_reason": request.stop_reason,
        "metrics": result.metrics,
        "tags": result.tags,
        "plan": result.plan,
    }


def _reason(shown: dict[str, Any]) -> str:
    full = f" (the KV cache holds {shown['plan']['n_ctx']} tokens)"
    return str(shown["stop_reason"]) + (full if shown["stop_reason"] == "kv_full" else "")


def _print(shown: dict[str, Any], tokenizer: ChatTokenizer) -> None:
    from rich.console import Console
    from rich.table import Table

    click.echo(f"\nprompt ids: {','.join(map(str, shown['prompt_ids']))}")
    click.echo(f"output ids: {','.join(map(str, shown['output_ids']))}")
    click.echo(f"stopped by: {_reason(shown)}; " + "; ".join(f"{k}: {v}" for k, v in shown["tags"].items()))
    best = Table("id", "token", "logit", title="best after the prompt")
    for token, logit in shown["top5_after_prompt"]:
        best.add_row(str(token), repr(tokenizer.decode([token])), f"{logit:.3f}")
    metrics = Table("metric", "value")
    for name, value in shown["metrics"].items():
        metrics.add_row(name, f"{value:.4g}" if value < 1e6 else f"{value:.0f}")
    for table in (best, metrics):
        Console().print(table)
