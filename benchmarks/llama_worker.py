"""Greedy decoding by llama.cpp's binding: a request as JSON on stdin, seconds and token ids as JSON on stdout.

Run by the Python that the binding is installed for, so it imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any


def decode(llama: Any, prompt: list[int], tokens: int) -> tuple[float, list[int]]:
    """Seconds from the first output token to the last, and the tokens."""
    output: list[int] = []
    first_s = 0.0
    for token in llama.generate(prompt, temp=0.0):
        first_s = first_s or perf_counter()
        output.append(int(token))
        if len(output) == tokens:
            break
    return perf_counter() - first_s, output


def main() -> None:
    from llama_cpp import Llama  # type: ignore[import-not-found]

    asked = json.load(sys.stdin)
    threads = asked["threads"]
    llama = Llama(asked["gguf"], n_ctx=asked["n_ctx"], n_threads=threads, n_threads_batch=threads, verbose=False)
    decode(llama, asked["prompts"][0], 4)
    decoded = [decode(llama, prompt, asked["tokens"]) for prompt in asked["prompts"]]
    print(json.dumps({"seconds": [s for s, _ in decoded], "output_ids": [ids for _, ids in decoded]}))


if __name__ == "__main__":
    main()
