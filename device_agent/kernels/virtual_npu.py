"""A stand-in where no accelerator exists: ggml's CPU on one core of its own, with the costs of reaching a device added.

What it computes is real and takes the accelerators' path; how long it takes says nothing of any accelerator.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from device_agent.kernels.ggml import Array, Tensor
from device_agent.kernels.ggml_devices import DeviceInfo, DeviceMemory

DISPATCH_S = 200e-6  # of a graph: a remote call to a phone's NPU takes some 100 to 300 µs
COPY_BYTES_PER_S = 5e9  # to and from shared buffers


def virtual_npu(cpu: DeviceInfo) -> DeviceInfo:
    """The entry that it has among the devices."""
    core = own_core()
    return replace(cpu, name="virtual_npu", description=f"modelled on core {core} of this CPU", kind="virtual")


def own_core() -> int:
    """The last one that this process may use."""
    return max(os.sched_getaffinity(0))


class VirtualNpu(DeviceMemory):
    """Commands run one after another on a thread that is pinned to its core."""

    def __init__(self, info: DeviceInfo) -> None:
        self.modelled_s = 0.0  # waited for dispatches and copies that are none
        core = own_core()
        self._queue = ThreadPoolExecutor(1, "virtual-npu", os.sched_setaffinity, (0, {core}))
        self.cores = self._queue.submit(os.sched_getaffinity, 0).result()  # where the system lets it run
        super().__init__(info)

    def compute(self, graph: Tensor) -> None:
        self._run(DISPATCH_S, lambda: DeviceMemory.compute(self, graph))

    def write(self, tensor: Tensor, source: int, nbytes: int, offset: int = 0) -> None:
        self._run(nbytes / COPY_BYTES_PER_S, lambda: DeviceMemory.write(self, tensor, source, nbytes, offset))

    def read(self, tensor: Tensor, into: Array) -> None:
        self._run(into.nbytes / COPY_BYTES_PER_S, lambda: DeviceMemory.read(self, tensor, into))

    def close(self) -> None:
        self._queue.shutdown()
        super().close()

    def _run(self, modelled_s: float, command: Callable[[], None]) -> None:
        def timed() -> None:
            time.sleep(modelled_s)  # the way to a device that is not there
            command()

        self.modelled_s += modelled_s
        self._queue.submit(timed).result()
