"""Rates of a job, on a clock that the test moves."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.batch.conftest import Rig

ROWS, BEGIN, RATE = 2000, 90.0, 45.0


def test_the_first_rate_counts_from_the_start_of_the_engines(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    import rayllm_ctl.serving.batch.inference as package
    from rayllm_ctl.serving.batch import driver, progress
    from rayllm_ctl.serving.batch.parts import Answer, News

    rig.write("1.txt", "".join(f"word {i}\n" for i in range(ROWS)))
    made: list[progress.Progress] = []
    seen: dict[str, Any] = {}

    class Known(progress.Progress):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def answers(*_: Any) -> Iterator[News]:
        rig.clock[0] = BEGIN
        yield News([], 1)
        rig.clock[0] = BEGIN + 20
        yield News([(0, i, Answer("a", "stop", 1, 2)) for i in range(900)], 1)
        seen.update(made[0].event())
        yield News([(i // 1000, i % 1000, Answer("a", "stop", 1, 2)) for i in range(ROWS)], 1)

    monkeypatch.setattr(driver, "Progress", functools.partial(Known, lambda: rig.clock[0]))
    monkeypatch.setattr(package.pipeline, "answers", answers)
    assert rig.run(rig.settings("text", "jsonl"))[0] == 0
    assert (seen["phase"], seen["done"], seen["rowsPerSecond"], seen["tokensPerSecond"]) == ("running", 900, RATE, 90.0)
    assert seen["etaSeconds"] == round((ROWS - 900) / RATE)
