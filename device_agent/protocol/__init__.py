"""What the controller and the agent say to each other: versioned JSON files, standard library only.

A job folder `jobs/<attempt_id>/` holds `spec.json` (JobSpec, written by the host), `events.jsonl` (one
AgentEvent a line, appended and flushed), `rounds.jsonl` (one RoundTrace a line), `nodes.jsonl` (one NodeTrace a
line, when asked for), `result.json` (JobResult, renamed into place last), `pid`, `rc` and `log`. A pack folder
`packs/<pack_hash>/` holds `model.json` (PackManifest) and its chunk files. One file for each subject.
"""

from __future__ import annotations

from device_agent.protocol.calibrations import (
    BackendCosts,
    CoreTrial,
    CostCalibration,
    CostTable,
    EdgeCalibration,
    EdgeTrace,
    LayerPredictor,
    PredictorCalibration,
    RecallPoint,
)
from device_agent.protocol.cores import ANY, ANYWHERE, CoresSpec, parse_cores, said_cores
from device_agent.protocol.engine_spec import DraftingSpec, EngineSpec, PruningSpec, StorageSpec, StreamCosts
from device_agent.protocol.jobs import STATES, EnergySpec, JobSpec, PromptSpec, SamplingSpec
from device_agent.protocol.packs import ChunkSpec, ExtentSpec, HyperParams, PackManifest, TensorSpec
from device_agent.protocol.results import AgentError, ExactnessCount, JobResult, RequestResult
from device_agent.protocol.traces import AgentEvent, NodeTrace, RoundTrace
from device_agent.protocol.versions import ENGINE_VERSION, PROTOCOL_VERSION
from device_agent.wire import WireError, from_json, to_json

__all__ = [
    "ANY",
    "ANYWHERE",
    "ENGINE_VERSION",
    "PROTOCOL_VERSION",
    "STATES",
    "AgentError",
    "AgentEvent",
    "BackendCosts",
    "ChunkSpec",
    "CoreTrial",
    "CoresSpec",
    "CostCalibration",
    "CostTable",
    "DraftingSpec",
    "EdgeCalibration",
    "EdgeTrace",
    "EnergySpec",
    "EngineSpec",
    "ExactnessCount",
    "ExtentSpec",
    "HyperParams",
    "JobResult",
    "JobSpec",
    "LayerPredictor",
    "NodeTrace",
    "PackManifest",
    "PredictorCalibration",
    "PromptSpec",
    "PruningSpec",
    "RecallPoint",
    "RequestResult",
    "RoundTrace",
    "SamplingSpec",
    "StorageSpec",
    "StreamCosts",
    "TensorSpec",
    "WireError",
    "from_json",
    "parse_cores",
    "said_cores",
    "to_json",
]
