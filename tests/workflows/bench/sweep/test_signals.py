"""Signals while something has to be put in order."""

from __future__ import annotations

import signal

import pytest

from rayllm_ctl.workflows.bench.sweep.signals import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_only_the_second_one_ends_what_is_held(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        with interrupts.held():
            signal.raise_signal(number)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert interrupts.count == 2
    assert signal.getsignal(number) is before


def test_signals_that_an_event_loop_gave_back_are_taken_again() -> None:
    with Interrupts() as interrupts:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        interrupts.take()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
