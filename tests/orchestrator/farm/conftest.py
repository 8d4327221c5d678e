from tests.fakes.bench import bench, shared_phone
from tests.fakes.lab import lab

__all__ = ["bench", "lab", "shared_phone"]
