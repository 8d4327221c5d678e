"""What the host asks for: `spec.json` of a job folder."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.protocol.calibrations import CostCalibration
from device_agent.protocol.engine_spec import EngineSpec

STATES = "states.npz"  # in the job folder: recorded states (engine.state_recording)


@dataclass(frozen=True)
class SamplingSpec:
    """How a token is chosen: the tempered distribution, cut to what the three filters keep, in this order."""

    temperature: float = 0.0  # 0: greedy, and nothing below matters
    top_k: int = 0  # the k best; 0: all
    top_p: float = 1.0  # of those the fewest best that make up this share of their probability
    min_p: float = 0.0  # and with at least this share of the best one's probability
    seed: int = 0  # with request id and position it makes the random stream


@dataclass(frozen=True)
class EnergySpec:
    """Stated power model of a virtual phone: P = idle + cpu_w_per_core·busy cores + flash_j_per_gb·GB/s."""

    method: str = "none"  # model | none
    idle_w: float = 0.0
    cpu_w_per_core: float = 0.0
    flash_j_per_gb: float = 0.0


@dataclass(frozen=True)
class PromptSpec:
    id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class JobSpec:
    """Everything the agent needs for one attempt; text stays on the host."""

    version: int
    attempt_id: str
    trial_id: str
    target_pack: str  # pack hash: the folder's name under packs_dir
    draft_pack: str | None
    engine: EngineSpec
    prompts: tuple[PromptSpec, ...]
    max_new_tokens: int
    stop_token_ids: tuple[int, ...]
    packs_dir: str = "../../packs"  # relative to the job folder, or absolute
    warmup_tokens: int = 4  # decoded before the first timed request, recorded but not counted; 0: none
    check_exactness: bool = True
    energy: EnergySpec = EnergySpec()
    flash_profile_mb_s: float | None = None  # a virtual phone's own flash bandwidth: another cap
    sampling: SamplingSpec = SamplingSpec()
    costs: CostCalibration | None = None  # None: measured in the warm-up, by strategies that need them
    kind: str = "decode"  # or a calibration: edges (acceptance, from decoding `prompts`) | costs (no prompts)
    max_rounds: int = 0  # edges: no further prompt after so many rounds; 0: all prompts
    state_layers: tuple[int, ...] = ()  # edges: the target's states after these layers go to STATES
