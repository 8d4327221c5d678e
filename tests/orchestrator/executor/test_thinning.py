from orchestrator.entities import Progress
from orchestrator.executor.thinning import MANY, Thinning


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def progress(attempt_id: str, kind: str = "progress") -> Progress:
    return Progress(attempt_id, "agent_event", {"kind": kind})


def test_steps_pass_and_of_progress_one_in_a_while() -> None:
    clock = Clock()
    thinning = Thinning(1.0, clock)
    kinds = ("started", "progress", "progress", "warmed_up", "progress")
    assert [thinning.passes(progress("a", kind)) for kind in kinds] == [True, True, False, True, False]
    assert thinning.passes(Progress("a", "connection_lost"))
    clock.now_s += 1.0
    assert thinning.passes(progress("a"))


def test_many_attempts_say_no_more_together_than_few() -> None:
    told = {}
    for phones in (MANY, 10 * MANY):
        clock = Clock()
        thinning = Thinning(1.0, clock)
        found = 0
        for _ in range(100):
            found += sum(thinning.passes(progress(str(phone))) for phone in range(phones))
            clock.now_s += 1.0
        told[phones] = found
    assert told[10 * MANY] <= 1.2 * told[MANY]


def test_one_that_is_forgotten_counts_no_more() -> None:
    clock = Clock()
    thinning = Thinning(1.0, clock)
    for phone in range(5 * MANY):
        thinning.passes(progress(str(phone)))
    for phone in range(1, 5 * MANY):
        thinning.forget(str(phone))
    clock.now_s += 1.0
    assert thinning.passes(progress("0"))
