from tests.fakes.bench import bench, shared_phone

__all__ = ["bench", "shared_phone"]
