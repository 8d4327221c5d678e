"""Prompts that pruning is studied on: the bundled calibration prompts, others like them, and edits of library code.

None is an evaluation prompt. Edits repeat much of their prompt, which is where looking drafts up in it pays.
"""

from __future__ import annotations

import ast
import bisect
import calendar
import colorsys
import fnmatch
import heapq
import inspect
import posixpath
import random
import shlex
import statistics
import string
import textwrap
from itertools import product
from types import ModuleType

from orchestrator.sweeps.workload import Prompt

MODULES: tuple[ModuleType, ...] = (
    bisect, calendar, colorsys, fnmatch, heapq, posixpath, random, shlex, statistics, string, textwrap,
)  # fmt: skip
LINES = range(12, 32)  # of a function that is edited
PER_MODULE = 4
EDITS = (
    "Add type hints and a docstring to this function. Answer with the whole function only.",
    "Rename the variables of this function so that they say what they hold. Answer with the whole function only.",
    "Add a comment above each step of this function. Answer with the whole function only.",
    "Translate this Python function into JavaScript. Answer with the code only.",
)
TASKS = (
    "Write a Python function that {}. Explain the idea in two sentences.",
    "Write a Go function that {}, with a table-driven test.",
)
THINGS = (
    "finds the longest common prefix of a list of strings",
    "converts Roman numerals to integers",
    "checks whether brackets in a text are balanced",
    "computes a moving average over a stream of numbers",
    "parses an INI file into nested mappings",
    "groups anagrams together",
    "finds the shortest path out of a maze given as rows of characters",
    "formats a number of bytes for people",
    "validates a credit card number by the Luhn algorithm",
    "schedules tasks with dependencies in an order that works",
    "compresses a string by run-length encoding and back",
    "computes the edit distance of two words",
)
QUESTIONS = (
    "Why is the sky blue at noon and red in the evening?",
    "What are the trade-offs between processes, threads and coroutines?",
    "Explain how a hash table resolves collisions, with a small example.",
    "Write a polite e-mail that moves a meeting from Tuesday to Thursday.",
    "Compare renting and buying a flat, as a table with pros and cons.",
    "How does a bicycle stay upright?",
    "Plan a three-day trip to Lisbon for a family with two children.",
    "What happens between typing an address into a browser and seeing the page?",
    "Explain recursion to a ten-year-old.",
    "List ten ways to save electricity at home, with one sentence each.",
    "Describe the life cycle of a star like the sun.",
    "How do vaccines train the immune system?",
)


def study_prompts() -> list[Prompt]:
    """In an order that mixes kinds, so that any first n are of all of them."""
    tasks = [task.format(thing) for task, thing in product(TASKS, THINGS)]
    pools = {"edit": _edits(), "task": tasks, "question": list(QUESTIONS)}
    found = [
        (index / len(texts), f"{kind}-{index}", text)
        for kind, texts in pools.items()
        for index, text in enumerate(texts)
    ]
    return [Prompt(name, text) for _, name, text in sorted(found)]


def _edits() -> list[str]:
    functions = [code for module in MODULES for code in _functions(module)[:PER_MODULE]]
    return [f"{EDITS[index % len(EDITS)]}\n\n```python\n{code}\n```" for index, code in enumerate(functions)]


def _functions(module: ModuleType) -> list[str]:
    """Sources of the module's own functions that are neither short nor long."""
    tree = ast.parse(inspect.getsource(module))
    sources = (ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef))
    return [code for code in sources if code.count("\n") + 1 in LINES]
