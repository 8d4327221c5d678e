"""Whether a job fits: its prompts into the KV cache, its weights into the DRAM budget and the phones' memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from device_agent.dram_plan import plan_dram
from device_agent.failure import AgentFailure
from device_agent.protocol import JobSpec, PackManifest
from orchestrator.entities import Device
from orchestrator.errors import ConfigError

MB = 1_000_000


def check_context(spec: JobSpec) -> None:
    """Raises ConfigError when a prompt and its answer are longer than the KV cache."""
    longest = max(spec.prompts, key=lambda prompt: len(prompt.token_ids))
    needed = len(longest.token_ids) + spec.max_new_tokens
    if needed > spec.engine.n_ctx:
        raise ConfigError(
            f"prompt {longest.id!r} has {len(longest.token_ids)} tokens; with workload.max_new_tokens="
            f"{spec.max_new_tokens} that is more than engine.n_ctx={spec.engine.n_ctx}",
            f"Set engine.n_ctx={needed} or more, or fewer new tokens.",
        )


def check_memory(spec: JobSpec, manifest: Callable[[str], PackManifest], phones: Sequence[Device]) -> None:
    """Raises ConfigError when the budget cannot hold the least that the engine needs, or a phone has less memory than
    the engine would use."""
    draft = manifest(spec.draft_pack) if spec.draft_pack else None
    try:
        plan = plan_dram(manifest(spec.target_pack), draft, spec.engine)
    except AgentFailure as failure:
        raise ConfigError(
            f"engine.memory.{failure}", "Raise the budget to what would do, or leave it out."
        ) from failure
    for phone in phones:
        has_mb = phone.facts.get("ram_mb")
        if has_mb and plan.total > has_mb * MB:
            raise ConfigError(
                f"phone {phone.name} has {has_mb:g} MB of memory, this engine uses {plan.total / MB:.0f} MB",
                "Use engine.storage.mode=flash with a smaller engine.memory.dram_budget_mb, or other phones.",
            )
