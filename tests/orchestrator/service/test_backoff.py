from orchestrator.service.backoff import HOLDS_S, LONGEST_S, BackOff


def test_pauses_grow_to_a_limit() -> None:
    back_off, pauses = BackOff(), []
    assert back_off.ready(0.0)
    for _ in range(8):
        back_off.failed(100.0)
        pauses.append(back_off.ready_at - 100.0)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == LONGEST_S
    assert not back_off.ready(100.0)
    assert back_off.ready(100.0 + LONGEST_S)


def test_what_held_for_a_while_starts_anew_at_once() -> None:
    back_off = BackOff(failures=6)
    back_off.failed(100.0, lived_s=HOLDS_S)
    assert (back_off.failures, back_off.ready_at) == (1, 101.0)
