import threading

from orchestrator.entities import AttemptOrder, Device
from orchestrator.farm.attempt_watch import AttemptWatch, Limits
from orchestrator.farm.job_folder import JobState

ORDER = AttemptOrder("a1", Device("p1", "tcp:127.0.0.1:1", "virtual", "desk", "S1", "/root"), {}, 60.0)


class Rests(threading.Event):
    """Notes how long it was to be waited for, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return False


def test_a_long_job_is_looked_at_seldom_and_its_end_soon() -> None:
    rests = Rests()
    watch = AttemptWatch(ORDER, lambda _: None, rests, Limits(poll=0.5))
    watch.seen(JobState(started=True, has_pid=True, alive=True, age_s=600.0))
    watch.rest()
    watch.seen(JobState(started=True, has_pid=True, alive=True, has_result=True, age_s=600.5))
    watch.rest()
    assert rests.asked == [0.5, 0.05]
