"""What a configuration becomes on a phone, and what is refused before queueing."""

import pytest

from device_agent.protocol import JobSpec, from_json, to_json
from orchestrator.entities import DeviceState
from orchestrator.errors import ConfigError, ModelError, UsageError
from orchestrator.sweeps.expand import Expander
from tests.fakes.farm import phone
from tests.fakes.jobs import job
from tests.fakes.models import FakeModels

POWER = {"idle_w": 0.5, "cpu_w_per_core": 1.5, "flash_j_per_gb": 0.3}


def test_a_trial_carries_a_job_that_the_agent_understands() -> None:
    device = phone(facts={"power_model": POWER, "flash_mb_s": 3500})
    config = job({"engine.drafting.k": 3, "engine.storage.flash_bandwidth_mb_s": 500.0})
    (trial,) = Expander(FakeModels(), [device]).expand(config)
    spec = from_json(JobSpec, trial.job)
    assert (spec.target_pack, spec.draft_pack) == ("target-hash", "draft-hash")
    assert (spec.engine.strategy, spec.engine.draft_k) == ("chain", 3)
    assert spec.engine.storage.flash_bandwidth_mb_s == 500.0
    assert (spec.energy.method, spec.energy.cpu_w_per_core, spec.flash_profile_mb_s) == ("model", 1.5, 3500.0)
    assert spec.trial_id == trial.trial_id
    assert [p.id for p in spec.prompts] == ["a", "b"]
    assert trial.labels["overrides"] == "engine.drafting.k=3 engine.storage.flash_bandwidth_mb_s=500.0"


def test_plain_decoding_needs_no_draft_and_a_real_phone_no_power_model() -> None:
    (trial,) = Expander(FakeModels(), [phone()]).expand(job({"engine.strategy": "autoregressive"}))
    spec = from_json(JobSpec, trial.job)
    assert (spec.draft_pack, spec.engine.draft_k) == (None, 0)
    assert (spec.energy.method, spec.flash_profile_mb_s) == ("none", None)


def test_a_strategy_gets_what_it_uses() -> None:
    lookup = {"engine.strategy": "prompt_lookup", "engine.drafting.k": 8, "engine.drafting.ngram": 2}
    tree = {"engine.strategy": "static_tree", "engine.drafting.widths": [3, 1], "engine.trace_nodes": False}
    found = [from_json(JobSpec, Expander(FakeModels(), [phone()]).expand(job(c))[0].job) for c in (lookup, tree)]
    engines = [spec.engine for spec in found]
    assert [(e.draft_k, e.draft_ngram, e.draft_widths, e.trace_nodes) for e in engines] == [
        (8, 2, (), True),
        (0, 0, (3, 1), False),
    ]
    assert [spec.draft_pack for spec in found] == [None, "draft-hash"]


def test_sampling_reaches_the_job() -> None:
    sampling = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 7}
    config = job({f"workload.sampling.{name}": value for name, value in sampling.items()})
    spec = from_json(JobSpec, Expander(FakeModels(), [phone()]).expand(config)[0].job)
    assert to_json(spec.sampling) == sampling


def test_any_phone_is_one_trial_bound_to_none() -> None:
    (trial,) = Expander(FakeModels(), [phone("a"), phone("b")]).expand(job({"phones": "any"}))
    assert trial.device is None


def test_prompts_are_encoded_once_for_many_jobs() -> None:
    models = FakeModels()
    expander = Expander(models, [phone()])
    for k in range(1, 6):
        expander.expand(job({"engine.drafting.k": k}))
    assert models.encoded == 1


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"pair.name": "huge"}, ModelError, "'huge' is not added"),
        ({"phones": "nokia"}, ConfigError, "nokia"),
        ({"phones": "soc:SM9999"}, ConfigError, "matches no phone"),
        ({"engine.n_ctx": 32, "workload.max_new_tokens": 30}, ConfigError, "more than engine.n_ctx=32"),
        ({"engine.memory.dram_budget_mb": 20}, ConfigError, r"dram_budget_mb=20 is too small: \d+ MB would do"),
        ({"workload.file": "none.jsonl", "workload.prompts": []}, ConfigError, "cannot be read"),
    ],
)
def test_what_cannot_run_is_refused_naming_the_job(
    changes: dict[str, object], kind: type[UsageError], says: str
) -> None:
    with pytest.raises(kind, match=says) as refused:
        Expander(FakeModels(), [phone()]).expand(job(changes, "job #4 (this)"))
    assert refused.value.message.startswith("job #4 (this): ")
    assert refused.value.remedy


def test_no_phone_and_retired_phones_are_refused_with_what_to_do() -> None:
    for devices in ([], [phone(state=DeviceState.RETIRED)]):
        with pytest.raises(ConfigError) as refused:
            Expander(FakeModels(), devices).expand(job())
        assert "lever phones register" in refused.value.remedy


def test_a_phone_with_too_little_memory_is_refused_by_name() -> None:
    phones = [phone("big"), phone("tiny", facts={"ram_mb": 64})]
    with pytest.raises(ConfigError, match="phone tiny has 64 MB of memory, this engine uses"):
        Expander(FakeModels(), phones).expand(job())
    assert len(Expander(FakeModels(), phones).expand(job({"phones": "big"}))) == 1


def test_a_budget_that_would_do_does() -> None:
    with pytest.raises(ConfigError) as refused:
        Expander(FakeModels(), [phone()]).expand(job({"engine.memory.dram_budget_mb": 20}))
    enough = int(refused.value.message.split(": ")[1].split()[0])
    assert Expander(FakeModels(), [phone()]).expand(job({"engine.memory.dram_budget_mb": enough}))


def test_a_paired_order_needs_named_phones() -> None:
    paired = {"schedule.order": "paired"}
    with pytest.raises(ConfigError, match="may take a different one each time") as raised:
        Expander(FakeModels(), [phone()]).expand(job(paired | {"phones": "any:soc:SM8650"}))
    assert raised.value.remedy == "Name phones: phones=soc:SM8650"
    assert len(Expander(FakeModels(), [phone()]).expand(job(paired | {"schedule.repeats": 2}))) % 2 == 0


def test_labels_tell_how_much_there_is_to_do_and_to_push() -> None:
    labels = Expander(FakeModels(), [phone()]).expand(job({"workload.max_new_tokens": 8}))[0].labels
    assert (labels["output_tokens"], labels["pack_mb"]) == ("16", "82")
