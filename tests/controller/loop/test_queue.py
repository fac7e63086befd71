"""The queue by a clock that a test sets: what runs next, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.controller.loop.queue import Backoff, KeyQueue
from rayllm_ctl.controller.types import Key

A, B, C = (Key("LLMService", "llm", name) for name in "abc")


def queue(backoff: Backoff | None = None, jitter: float = 0.0) -> KeyQueue:
    return KeyQueue(backoff, jitter=lambda: jitter)


def test_a_key_that_is_marked_several_times_runs_once() -> None:
    q = queue()
    for now in (0.0, 0.1, 0.2):
        q.mark(A, now)
    assert (q.depth(1.0), q.take(1.0), q.take(1.0), q.wait(1.0)) == (1, A, None, None)


def test_keys_run_in_the_order_in_which_they_were_due() -> None:
    q = queue()
    q.mark(A, 0.0, after=3.0)
    q.mark(B, 1.0)
    q.mark(C, 1.0)
    assert [q.take(5.0) for _ in range(4)] == [B, C, A, None]


def test_a_key_that_runs_is_not_taken_and_runs_again_if_it_was_marked() -> None:
    q = queue()
    q.mark(A, 0.0)
    assert q.take(0.0) == A
    q.mark(A, 1.0)
    assert (q.take(2.0), q.running, q.depth(2.0)) == (None, (A,), 0)
    q.succeeded(A, 2.0, None)
    assert (q.running, q.take(2.0)) == ((), A)
    q.succeeded(A, 3.0, None)
    assert (q.take(1e9), q.wait(1e9)) == (None, None)


def test_a_delay_counts_from_the_end_and_the_earliest_of_several_wins() -> None:
    q = queue()
    q.mark(A, 0.0)
    q.take(0.0)
    q.succeeded(A, 10.0, 60.0)
    assert q.take(69.9) is None
    assert q.wait(69.9) == pytest.approx(0.1)
    q.mark(A, 20.0, after=10.0)
    q.mark(A, 21.0, after=100.0)
    assert (q.take(29.9), q.take(30.0)) == (None, A)
    q.succeeded(A, 30.0, None)
    assert (q.take(1e9), q.wait(0.0)) == (None, None)


def test_a_mark_while_it_runs_and_a_delay_leave_the_earlier_one() -> None:
    q = queue()
    q.mark(A, 0.0)
    q.take(0.0)
    q.mark(A, 1.0, after=100.0)
    q.mark(A, 1.0, after=200.0)
    q.succeeded(A, 5.0, 30.0)
    assert q.wait(5.0) == 30.0


def test_failures_double_the_delay_up_to_five_minutes_and_success_resets_it() -> None:
    q = queue()
    q.mark(A, 0.0)
    now, delays = 0.0, []
    for _ in range(12):
        assert q.take(now) == A
        delays.append(q.failed(A, now))
        assert q.take(now + delays[-1] - 0.01) is None
        now += delays[-1]
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert q.failing == 1
    assert q.take(now) == A
    q.succeeded(A, now, None)
    assert q.failing == 0
    q.mark(A, now)
    assert q.take(now) == A
    assert q.failed(A, now) == 0.5


def test_a_thousand_failures_do_not_overflow() -> None:
    q = queue(Backoff(per_second=1e9))
    now = 0.0
    q.mark(A, now)
    for _ in range(2000):
        assert q.take(now) == A
        now += q.failed(A, now)
    assert q.wait(now - 300.0) == 300.0


def test_jitter_shortens_a_delay_by_up_to_half() -> None:
    for jitter, seconds in ((0.0, 0.5), (0.5, 0.375), (1.0, 0.25)):
        q = queue(jitter=jitter)
        q.mark(A, 0.0)
        q.take(0.0)
        assert (q.failed(A, 0.0), q.wait(0.0)) == (seconds, seconds)


def test_a_change_does_not_wait_for_a_long_backoff_but_is_no_hot_loop_either() -> None:
    q = queue(Backoff(first=100.0, changed=5.0))
    q.mark(A, 0.0)
    q.take(0.0)
    q.failed(A, 10.0)
    q.mark(A, 10.1)
    assert q.take(14.9) is None
    assert q.wait(10.1) == pytest.approx(4.9)
    assert q.take(15.0) == A


def test_a_change_while_a_try_fails_is_looked_at_after_the_same_time() -> None:
    q = queue(Backoff(first=100.0, changed=5.0))
    q.mark(A, 0.0)
    q.take(0.0)
    q.mark(A, 1.0)
    q.failed(A, 10.0)
    assert (q.wait(10.0), q.take(14.9), q.take(15.0)) == (5.0, None, A)


def test_retries_of_all_keys_share_a_limit_that_first_tries_do_not_have() -> None:
    q = queue(Backoff(first=1.0, per_second=2.0, burst=2))
    keys = [Key("LLMService", "llm", f"s{number}") for number in range(5)]
    for key in keys:
        q.mark(key, 0.0)
    for _ in keys:
        taken = q.take(0.0)
        assert taken is not None
        q.failed(taken, 0.0)
    assert [q.take(1.0) for _ in range(3)] == [*keys[:2], None]
    assert (q.depth(1.0), q.wait(1.0)) == (3, 0.5)
    q.mark(A, 1.0)
    assert (q.take(1.0), q.take(1.0)) == (A, None)
    assert (q.take(1.5), q.take(1.5), q.take(2.0), q.take(2.5)) == (keys[2], None, keys[3], keys[4])


def test_tokens_of_the_limit_do_not_pile_up() -> None:
    q = queue(Backoff(first=1.0, per_second=100.0, burst=1))
    for key in (A, B):
        q.mark(key, 0.0)
        q.take(0.0)
        q.failed(key, 0.0)
    assert (q.take(1000.0), q.take(1000.0), q.take(1000.02)) == (A, None, B)


ACTIONS = st.sampled_from(["mark", "later", "take", "good", "again", "bad"])


@given(st.lists(st.tuples(ACTIONS, st.sampled_from([A, B, C]))))
def test_no_key_is_lost_and_none_runs_twice(steps: list[tuple[str, Key]]) -> None:
    """Whatever happens in which order: all that was marked runs after the last mark."""
    q = queue(Backoff(per_second=1000.0))
    now = 0.0
    wanted: set[Key] = set()
    running: set[Key] = set()
    for step, key in steps:
        now += 0.1
        if step in ("mark", "later"):
            q.mark(key, now, 2.0 if step == "later" else 0.0)
            wanted.add(key)
        elif step == "take":
            taken = q.take(now)
            assert taken not in running
            if taken is not None:
                running.add(taken)
                wanted.discard(taken)
        elif key in running:
            running.discard(key)
            if step == "bad":
                q.failed(key, now)
            else:
                q.succeeded(key, now, 7.0 if step == "again" else None)
            if step != "good":
                wanted.add(key)
        assert set(q.running) == running
    for key in running:
        q.succeeded(key, now, None)
    left = set()
    while (seconds := q.wait(now)) is not None:
        now += seconds + 1e-6
        taken = q.take(now)
        if taken is not None:
            left.add(taken)
            q.succeeded(taken, now, None)
    assert left == wanted
