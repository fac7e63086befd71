"""One ingress replica as far as rate limits go: clients that ask as fast as they can, and a record of every answer.

Usage: limits_client.py PLAN, a JSON object. It prints a line when it is ready, begins at the first line of standard
input and ends at the second one. Every answer is a line of standard output, a JSON list: start (seconds since the
epoch), seconds that it took, key, address, tokens, what happened, time by Redis's clock or null.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from rayllm_ctl.serving.gateway.limits.limiter import open_limits
from rayllm_ctl.serving.gateway.limits.windows import Outcome
from rayllm_ctl.serving.gateway.steps import Admission, Client, Metric
from rayllm_ctl.serving.gateway.user_config import read_gateway


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
    ended = asyncio.Event()

    async def client(number: int) -> None:
        chance = random.Random(number)
        while not ended.is_set():
            key, address = chance.choice(plan["keys"]), chance.choice(plan["addresses"])
            tokens = chance.randint(1, 50)
            start, began = time.time(), time.perf_counter()
            admission = await limits.admit(Client(key), address, "m", tokens)
            print(json.dumps([start, time.perf_counter() - began, key, address, tokens, *record(admission)]))
            await asyncio.sleep(plan["pause"])

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    clients = [asyncio.create_task(client(number)) for number in range(plan["clients"])]
    await asyncio.to_thread(sys.stdin.readline)
    ended.set()
    await asyncio.gather(*clients)
    await limits.close()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
