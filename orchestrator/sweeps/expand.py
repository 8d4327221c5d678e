"""Configurations × phones × repeats → trials. Whatever can be known to be wrong is refused here, before queueing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Protocol

from device_agent.protocol import (
    PROTOCOL_VERSION,
    EnergySpec,
    JobSpec,
    PackManifest,
    PredictorCalibration,
    PromptSpec,
    SamplingSpec,
    to_json,
)
from orchestrator.entities import Device, TrialSpec
from orchestrator.errors import ConfigError
from orchestrator.models.acceptance import Acceptance, prompt_hash
from orchestrator.scheduling.selector import ANY, any_one, select
from orchestrator.schema import LeverConf, WorkloadConf
from orchestrator.sweeps import identity
from orchestrator.sweeps.fit import MB, check_context, check_memory
from orchestrator.sweeps.jobs import (
    SweepJob,
    engine_spec,
    naming,
    sampling_spec,
    uses_acceptance,
    with_draft_model,
    with_edges,
    with_predictor,
)
from orchestrator.sweeps.workload import Tokenizer, encode_prompts, read_prompts


class PairLike(Protocol):
    """What a sweep needs to know of a model pair."""

    @property
    def name(self) -> str: ...
    @property
    def target_pack(self) -> str: ...
    @property
    def draft_pack(self) -> str: ...
    @property
    def stop_token_ids(self) -> tuple[int, ...]: ...


class Models(Protocol):
    """The model store; `pair` raises ModelError with the remedy when it is not added."""

    def pair(self, name: str) -> PairLike: ...
    def manifest(self, pack_hash: str) -> PackManifest: ...
    def tokenizer(self, pair_name: str) -> Tokenizer: ...
    def acceptance(self, pair_name: str, sampling: SamplingSpec) -> Acceptance | None: ...


class Expander:
    """Expands the jobs of one batch; prompts are encoded once for each pair and workload, manifests read once."""

    def __init__(self, models: Models, devices: Sequence[Device]) -> None:
        self._models, self._devices = models, devices
        self._manifest = cache(models.manifest)
        self._prompts: dict[str, tuple[PromptSpec, ...]] = {}

    def expand(self, job: SweepJob) -> tuple[TrialSpec, ...]:
        """The job's trials, by phone and repeat. Raises UsageError (ConfigError, ModelError) naming the job."""
        with naming(job):
            spec = self._job_spec(job)
            check_context(spec)
            selected = select(self._devices, job.conf.phones)
            anywhere = any_one(job.conf.phones)
            _check_order(job.conf, anywhere)
            check_memory(spec, self._manifest, [] if anywhere else selected)
            phones: Sequence[Device | None] = [None] if anywhere else selected
            repeats = range(job.conf.schedule.repeats)
            pack_mb = self._pack_mb(spec)
            return tuple(_trial(job, spec, phone, repeat, pack_mb) for phone in phones for repeat in repeats)

    def _pack_mb(self, spec: JobSpec) -> float:
        """What a phone without the models would be sent, MB."""
        packs = {spec.target_pack, spec.draft_pack} - {None}
        return sum(extent.nbytes for pack in packs if pack for extent in self._manifest(pack).extents) / MB

    def _job_spec(self, job: SweepJob) -> JobSpec:
        conf, pair = job.conf, self._models.pair(job.conf.pair.name)
        spec = JobSpec(
            version=PROTOCOL_VERSION,
            attempt_id="",
            trial_id="",
            target_pack=pair.target_pack,
            draft_pack=pair.draft_pack if with_draft_model(conf.engine) else None,
            engine=engine_spec(conf.engine),
            prompts=self._encoded(pair.name, conf.workload),
            max_new_tokens=conf.workload.max_new_tokens,
            stop_token_ids=tuple(pair.stop_token_ids),
            sampling=sampling_spec(conf.workload.sampling),
        )
        return self._calibrated(spec, pair.name) if uses_acceptance(spec) else spec

    def _calibrated(self, spec: JobSpec, pair: str) -> JobSpec:
        """With what was learnt of the pair's acceptance, if it was. Raises ConfigError when it was learnt from prompts
        that are to be measured."""
        learnt = self._models.acceptance(pair, spec.sampling)
        if learnt is None:
            return replace(spec, engine=with_predictor(spec.engine, PredictorCalibration()))
        if known := [prompt.id for prompt in spec.prompts if prompt_hash(prompt) in learnt.prompts]:
            raise ConfigError(
                f"prompt {known[0]!r} is one that calibration {learnt.edges.key} of pair {pair!r} was learnt from",
                "Measure on other prompts: what was learnt by heart says nothing of them.",
            )
        return replace(spec, engine=with_predictor(with_edges(spec.engine, learnt.edges), learnt.predictor))

    def _encoded(self, pair: str, workload: WorkloadConf) -> tuple[PromptSpec, ...]:
        key = f"{pair} {workload!r}"
        if key not in self._prompts:
            tokenizer = self._models.tokenizer(pair)
            self._prompts[key] = encode_prompts(read_prompts(workload), tokenizer, workload.chat)
        return self._prompts[key]


def on_phone(spec: JobSpec, device: Device) -> JobSpec:
    """The job with the phone's own facts: a virtual phone's stated power model and flash bandwidth."""
    model, flash = device.facts.get("power_model"), device.facts.get("flash_mb_s")
    return replace(
        spec,
        energy=EnergySpec("model", **model) if model else EnergySpec(),
        flash_profile_mb_s=float(flash) if flash and device.simulated else None,
    )


def _check_order(conf: LeverConf, anywhere: bool) -> None:
    if conf.schedule.order == "paired" and anywhere:
        raise ConfigError(
            f"schedule.order=paired compares on one phone, phones={conf.phones} may take a different one each time",
            f"Name phones: phones={conf.phones.removeprefix(ANY).removeprefix(':') or 'each'}",
        )


def _trial(job: SweepJob, spec: JobSpec, phone: Device | None, repeat: int, pack_mb: float) -> TrialSpec:
    spec = on_phone(spec, phone) if phone else spec
    trial_id = identity.trial_id(job.config, spec, phone, repeat)
    labels = {
        "pair": job.conf.pair.name,
        "strategy": spec.engine.strategy,
        "storage": spec.engine.storage.mode,
        "workload": job.conf.workload.name,
        "config_key": identity.config_key(job.config, spec),
        "reference_key": identity.reference_key(spec, phone),
        "baseline_key": identity.baseline_key(job.config, spec, phone, repeat),
        "overrides": job.label,
        "output_tokens": str(len(spec.prompts) * spec.max_new_tokens),
        "pack_mb": f"{pack_mb:.0f}",
    }
    if uses_acceptance(spec):
        labels["calibration"] = spec.engine.drafting.edges.key
    return TrialSpec(
        trial_id=trial_id,
        device=phone.name if phone else None,
        repeat=repeat,
        config=job.config,
        job=to_json(replace(spec, trial_id=trial_id)),
        labels=labels,
    )
