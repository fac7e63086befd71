"""One ingress replica as far as rate limits go: clients that ask as fast as they can, and a record of every answer.

Usage: limits_client.py PLAN, a JSON object; the records go to standard output, one JSON list per line: start (seconds
since the epoch), seconds that it took, key, address, tokens, what happened, time by Redis's clock or null.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from rayllm_ctl.serving.gateway.limits import open_limits
from rayllm_ctl.serving.gateway.limits_windows import Outcome
from rayllm_ctl.serving.gateway.steps import Admission, Client, Metric
from rayllm_ctl.serving.gateway.userconfig import read_gateway


class NoMetrics:
    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Nothing."""


def record(admission: Admission) -> tuple[str, int | None]:
    match admission.charge:
        case (_, Outcome() as outcome):
            return "admitted", outcome.time
    if admission.rejection is None:
        return "allowed", None
    return ("limited" if admission.rejection.status == 429 else "denied"), None


async def run(plan: dict[str, Any]) -> None:
    settings = read_gateway({"limits": plan["limits"]})
    assert settings is not None
    assert settings.limits is not None
    limits = open_limits(settings.limits, NoMetrics())
    records: list[list[Any]] = []

    async def client(number: int) -> None:
        chance = random.Random(number)
        while time.time() < plan["end"]:
            key, address = chance.choice(plan["keys"]), chance.choice(plan["addresses"])
            tokens = chance.randint(1, 50)
            start, began = time.time(), time.perf_counter()
            admission = await limits.admit(Client(key), address, "m", tokens)
            records.append([start, time.perf_counter() - began, key, address, tokens, *record(admission)])
            await asyncio.sleep(plan["pause"])

    await asyncio.sleep(plan["start"] - time.time())
    await asyncio.gather(*(client(number) for number in range(plan["clients"])))
    await limits.close()
    for line in records:
        print(json.dumps(line))


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
