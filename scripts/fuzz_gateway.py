"""Send damaged requests through the gateway: 2xx and 4xx are right, other statuses, tracebacks and file paths are not.

python -m scripts.fuzz_gateway [COUNT] [SEED]       # 100000 requests by default; prints the seed of each failure

Then schemathesis makes requests from the gateway's OpenAPI document: no 5xx, and no status that it does not describe.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import random
import sys
import time
import traceback
from typing import Any
from urllib.parse import unquote

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from schemathesis import GenerationMode

from rayllm_ctl.serving.gateway.body import openapi
from rayllm_ctl.serving.gateway.settings import Validation
from tests.serving.gateway import mutate
from tests.serving.gateway.upstream import Case, Keys, Limits, Queue, gateway

_LONGEST = 1.0
"""Seconds of CPU that one request may take."""

_EXAMPLES = 50
"""Requests that schemathesis makes for each operation, valid and invalid ones."""


async def damaged(count: int, seed: int) -> int:
    """Failures among so many damaged requests."""
    case, statuses, failures, longest = mutate.picky(), collections.Counter[int](), 0, 0.0
    began = time.perf_counter()
    for number in range(count):
        start = time.process_time()
        try:
            status, _, _ = await mutate.outcome(case, random.Random(f"{seed}-{number}"))  # noqa: S311
            statuses[status] += 1
        except Exception:
            failures += 1
            request = mutate.damaged(random.Random(f"{seed}-{number}"))  # noqa: S311
            sys.stdout.write(f"request {seed}-{number}: {request!r:.500}\n{traceback.format_exc()[-1000:]}\n")
        took = time.process_time() - start
        longest = max(longest, took)
        if took > _LONGEST:
            failures += 1
            sys.stdout.write(f"request {seed}-{number} took {took:.1f} s\n")
        if failures >= 20:
            break
    shown = ", ".join(f"{status}: {number}" for status, number in sorted(statuses.items()))
    elapsed = time.perf_counter() - began
    sys.stdout.write(f"{count} damaged requests of seed {seed} in {elapsed:.0f} s, {failures} failures; {shown}; ")
    sys.stdout.write(f"the longest took {1e3 * longest:.0f} ms of CPU\n")
    return failures


def described() -> int:
    """Failures among requests that schemathesis makes from the OpenAPI document."""
    document, failures = openapi.document(Validation(), keys=True), 0
    for path in document["paths"].values():
        for content in path.get("post", {}).get("requestBody", {}).get("content", {}).values():
            content["schema"]["properties"]["model"] = {"enum": ["big", "small", "small-sql"]}
            content["schema"].setdefault("required", []).append("model")
    schema = schemathesis.openapi.from_dict(document)
    for result in schema.get_all_operations():
        operation = result.ok()
        seen: collections.Counter[int] = collections.Counter()
        # Nothing about a path without a body can be invalid.
        modes = GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if operation.method == "post" else [])
        for mode in modes:
            try:
                _send_all(
                    operation.as_strategy(generation_mode=mode),
                    gateway({"cleaning": {}}, keys=Keys(), limits=Limits(10**9), queue=Queue()),
                    set(operation.responses.status_codes),
                    seen,
                )
            except Exception:
                failures += 1
                sys.stdout.write(f"schemathesis {operation.label}: {traceback.format_exc()[-3000:]}\n")
        shown = ", ".join(f"{status}: {number}" for status, number in sorted(seen.items()))
        sys.stdout.write(f"schemathesis {operation.label}: {shown}\n")
    return failures


def _send_all(strategy: Any, case: Case, described: set[str], seen: collections.Counter[int]) -> None:
    @hypothesis.settings(
        max_examples=_EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(strategy)
    def send(request: Any) -> None:
        arguments = request.as_transport_kwargs()
        prepared = requests.Request(
            method=request.method,
            url=f"http://gateway{request.formatted_path}",
            **{name: arguments[name] for name in ("json", "data", "files", "params") if name in arguments},
        ).prepare()
        body = prepared.body or b""
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        headers = {"authorization": "Bearer k-admin"}
        if kind := prepared.headers.get("Content-Type"):
            headers["content-type"] = kind
        response = asyncio.run(case.send(request.method, unquote(request.formatted_path), data, headers))
        seen[response.status] += 1
        assert response.status < 500, response
        assert str(response.status) in described, response
        assert mutate.LEAK.search(response.body) is None, response

    send()


def main() -> int:
    logging.disable()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    failures = asyncio.run(damaged(count, seed))
    return 1 if failures + described() else 0


if __name__ == "__main__":
    sys.exit(main())
