"""Who is who: a trial's id is a hash of everything that can change its result, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from device_agent.protocol import ENGINE_VERSION, JobSpec, PromptSpec, to_json
from orchestrator.entities import Device

# Keys of a configuration that say how a sweep is run, not what is measured.
VOLATILE = frozenset(
    {
        "sweep",
        "runtime",
        "phones",  # the phone itself is part of a trial
        "schedule.repeats",  # the repeat's number is part of a trial
        "schedule.order",
        "schedule.seed",
        "schedule.priority",
        "schedule.max_attempts",
        "schedule.deadline_s",
        "schedule.fail_fast",
        "schedule.max_failures",
        "on_existing",
        "detach",
    }
)
# Keys that name something whose content the job holds: pack hashes, token ids. The names themselves don't matter.
BY_CONTENT = frozenset(
    {
        "pair.name",
        "workload.name",
        "workload.prompts",
        "workload.file",
        "workload.source",
        "workload.limit",
        "workload.chat",
    }
)
# Settings that reach the job in the form that is used: no draft length without drafting, no seed without sampling.
IN_THE_JOB = ("engine.", "workload.sampling.")
# Fields of a job that are its address or its phone's, not its configuration.
NOT_CONFIGURATION = ("attempt_id", "trial_id", "packs_dir", "energy", "flash_profile_mb_s")
# What a baseline may differ in: the strategy, and how it keeps the flash busy.
READING = ("prefetch", "pinning", "costs")
DRAFTING = ("strategy", "draft_k", "draft_widths", "draft_ngram", "drafting", "pruning", "trace_nodes")


def config_key(config: dict[str, Any], job: JobSpec) -> str:
    """A configuration on any phone: the job's content and whatever else of the config is not volatile."""
    return _digest(_content(config, job))


def trial_id(config: dict[str, Any], job: JobSpec, device: Device | None, repeat: int) -> str:
    """A configuration on one phone (None: on any that `phones` selects), one repeat."""
    phone = [device.name, device.serial] if device else [config["phones"]]
    return _digest([config_key(config, job), phone, to_json(job.energy), job.flash_profile_mb_s, repeat])


def reference_key(job: JobSpec, device: Device | None) -> str:
    """Trials that must emit the same text: same phone, target, prompts, lengths and sampling."""
    return _digest(_text_inputs(job, device))


def baseline_key(config: dict[str, Any], job: JobSpec, device: Device | None, repeat: int) -> str:
    """Trials whose speeds compare: same phone, text, budget and flash; strategy, drafting and reading may differ."""
    content = _content(config, job)
    content["job"].pop("draft_pack")
    for name in DRAFTING:
        content["job"]["engine"].pop(name)
    for name in READING:
        content["job"]["engine"]["storage"].pop(name)
    return _digest([_text_inputs(job, device), content, repeat])


def sweep_id(trial_ids: Sequence[str], name: str | None) -> str:
    """Of a named sweep by its name, so that it can grow; else by the set of its trials."""
    return _digest(["sweep", name] if name else sorted(set(trial_ids)))[:12]


def leaves(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of a resolved configuration; lists are values."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _content(config: dict[str, Any], job: JobSpec) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in leaves(config)
        if key not in VOLATILE and key not in BY_CONTENT and not key.startswith(IN_THE_JOB)
    }
    fields = to_json(replace(job, prompts=()))  # prompts can be long: once each, below
    content = {key: value for key, value in fields.items() if key not in NOT_CONFIGURATION}
    return {"config": kept, "job": content, "prompts": _prompts_key(job.prompts), "engine_version": ENGINE_VERSION}


def _text_inputs(job: JobSpec, device: Device | None) -> list[Any]:
    phone = [device.name, device.serial] if device else None
    where = [] if job.engine.placement == "cpu" else [job.engine.placement]  # other devices round differently
    text = [*where, _prompts_key(job.prompts), job.max_new_tokens, list(job.stop_token_ids), to_json(job.sampling)]
    return [phone, job.target_pack, *text]


@lru_cache(maxsize=64)
def _prompts_key(prompts: tuple[PromptSpec, ...]) -> str:
    return _digest([[prompt.id, *prompt.token_ids] for prompt in prompts])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
