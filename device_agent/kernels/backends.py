"""What can compute here, from ggml's device list, and a model's kernels on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from device_agent.failure import AgentFailure
from device_agent.kernels.base import Kernels
from device_agent.kernels.decoder import GgmlKernels
from device_agent.kernels.ggml_devices import DeviceInfo, DeviceMemory, free_bytes, list_devices
from device_agent.kernels.static import StaticKernels
from device_agent.kernels.virtual_npu import VirtualNpu, virtual_npu
from device_agent.protocol import PackManifest


@dataclass(frozen=True)
class Backend:
    """A device that runs models."""

    device: DeviceInfo

    @property
    def name(self) -> str:
        return self.device.name

    @property
    def kind(self) -> str:
        """cpu | gpu | npu | virtual."""
        return self.device.kind

    @property
    def free_bytes(self) -> int | None:
        """Memory of its own that is left; None: it has none, and the DRAM plan counts what lies there."""
        return free_bytes(self.device) if self.kind in ("gpu", "npu") else None

    @property
    def static_shapes(self) -> bool:
        """A batch is padded to one of kernels.static.BUCKETS."""
        return self.kind != "cpu"


def list_backends() -> list[Backend]:
    """The CPU first, then the accelerators in ggml's order; where there is none, a virtual one."""
    devices = list_devices()
    cpu = next(device for device in devices if device.kind == "cpu")
    others = [device for device in devices if device.kind != "cpu"] or [virtual_npu(cpu)]
    return [Backend(cpu), *map(Backend, others)]


class Weights(Protocol):
    """What kernels need of model.source.WeightSource."""

    @property
    def manifest(self) -> PackManifest: ...

    @property
    def layouts(self) -> Mapping[str, str]: ...

    def extent(self, name: str) -> int: ...


def open_kernels(backend: Backend, weights: Weights, n_ctx: int, threads: int) -> Kernels:
    """A model on `backend`; `threads` are the CPU's. Raises AgentFailure bad_spec for weights laid out for the CPU."""
    if not backend.static_shapes:
        return GgmlKernels(weights.manifest, weights.extent, n_ctx, threads, weights.layouts)
    if weights.layouts:
        raise AgentFailure(
            "bad_spec", f"{backend.name} computes with weights by rows, and these are laid out for the CPU"
        )
    device = VirtualNpu(backend.device) if backend.kind == "virtual" else DeviceMemory(backend.device)
    return StaticKernels(weights.manifest, weights.extent, n_ctx, device)
