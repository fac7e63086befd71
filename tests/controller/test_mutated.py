"""A few hundred damaged specs; scripts/fuzz_controller.py has thousands of them."""

from __future__ import annotations

import collections
import random

from tests.controller.conftest import Controlled
from tests.controller.mutate import damaged, outcome, sound_objects

COUNT, SEED = 300, 35


def test_each_damaged_spec_is_applied_or_stalled_with_a_reason(controlled: Controlled) -> None:
    objects = sound_objects()
    empty = controlled.api.saved()
    seen: collections.Counter[str] = collections.Counter()
    for number in range(COUNT):
        rng = random.Random(f"{SEED}-{number}")
        item = damaged(rng.choice(objects), objects, rng)
        controlled.api.restore(empty)
        controlled.restart()
        seen[outcome(controlled, item)] += 1
    assert seen["rejected"] > COUNT / 5, seen
    assert seen["Applied"] > COUNT / 20, seen
