"""A sample of damaged requests; `make fuzz-gateway` sends many more."""

from __future__ import annotations

import asyncio
import collections
import random

from tests.serving.gateway.mutate import outcome, picky


def test_damaged_requests_are_answered_with_2xx_or_4xx() -> None:
    statuses: collections.Counter[int] = collections.Counter()

    async def run() -> None:
        case = picky()
        for number in range(1000):
            status, _, _ = await outcome(case, random.Random(f"gateway-{number}"))
            statuses[status] += 1

    asyncio.run(run())
    # Neither everything passes nor everything is rejected, or the sample would say nothing.
    assert statuses[200] > 100
    assert statuses[400] > 300
    assert statuses[404] > 10
