"""The part of bench_gateway that runs with Ray: two applications, their load, and what was measured."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import ray
from ray import serve
from ray.serve.llm import build_openai_app

from rayllm_ctl.serving import ingress, model

KEY = "a-key-of-the-benchmark"
KEYS = Path.home() / "keys"
SIDES = {"plain": "http://127.0.0.1:8000/plain", "gateway": "http://127.0.0.1:8000/gateway"}
FULL = "http://127.0.0.1:8000/full"
PAIRS = 400
CLIENTS = 16
BLOCK_SECONDS = 1.0
"""Short, since the speed of a machine changes; one pair of blocks is about 10 % off, so it takes many."""
MOST_ADDED_MS = 2.0
LEAST_RATIO = 0.97
MOST_SHED_MS = 100.0
TOKENS, SLOTS = 16, 4
"""Tokens of an answer, and answers that the model computes at once: with the pace of bench_gateway 50 answers a second,
with which one replica of either ingress keeps the model busy."""
RETRYING, FULL_SECONDS = 4, 20.0
"""Clients beyond those whose requests are answered or wait, and how long the queue is kept full."""

GATEWAY = {
    "validation": {
        "promptCharacters": {"min": 1, "max": 100_000},
        "promptTokens": {"min": 1, "max": 4000},
        "outputTokens": {"max": 1000},
    },
    "cleaning": {"normalization": "NFC", "characters": "§"},
    "keys": {"directory": str(KEYS)},
    "limits": {
        "perKey": {"requests": "1000000/minute", "tokens": "1000000000/minute"},
        "perAddress": {"requests": "1000000/minute", "tokens": "1000000000/minute"},
    },
    "queue": {"maxPending": 1000},
    "cors": {"origins": ["https://example.com"]},
}
BODY = {
    "model": "tiny",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What does Ray Serve do with the replicas of a model? " * 10},
    ],
    "max_tokens": TOKENS,
}


def say(text: str) -> None:
    sys.stdout.write(f"bench: {text}\n")
    sys.stdout.flush()


def config(**deployment: Any) -> dict[str, Any]:
    return {
        "model_loading_config": {"model_id": "tiny", "model_source": "/mnt/tiny"},
        "accelerator_config": {"kind": "cpu"},
        "placement_group_config": {"bundle_per_worker": {"CPU": 0.1}},
        "deployment_config": {"max_ongoing_requests": 256, "ray_actor_options": {"num_cpus": 0.1}, **deployment},
        "engine_kwargs": {"max_num_seqs": SLOTS},
        "log_engine_metrics": False,
    }


def start() -> None:
    """Both applications, each with a replica of the ingress and one of the model."""
    KEYS.mkdir()
    (KEYS / "bench").write_text(json.dumps({"sha256": hashlib.sha256(KEY.encode()).hexdigest()}))
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": 8000})
    one = {"ray_actor_options": {"num_cpus": 0.1}, "num_replicas": 1}
    plain = build_openai_app({"llm_configs": [config(num_replicas=1)], "ingress_deployment_config": one})
    serve.run(plain, name="plain", route_prefix="/plain")
    serve.run(model.build(config(num_replicas=1)), name="model", route_prefix=None)
    run_gateway("gateway", "model", GATEWAY)


def run_gateway(name: str, application: str, settings: dict[str, Any]) -> None:
    """The application `name`: a gateway in front of the model of `application`."""
    routes = [{"id": "tiny", "application": application, "deployment": "LLMServer:tiny", "tokenizer": "/mnt/tiny"}]
    deployment = serve.deployment(
        serve.ingress()(ingress.OpenAiIngress),
        max_ongoing_requests=ingress.MAX_ONGOING_REQUESTS,
        user_config={"models": routes, "gateway": settings},
        ray_actor_options={"num_cpus": 0.1},
        num_replicas=1,
    )
    serve.run(deployment.bind(), name=name, route_prefix=f"/{name}")


async def ask(session: aiohttp.ClientSession, side: str, *, stream: bool = False, tokens: int = TOKENS) -> float:
    """Seconds to the end of the answer."""
    body = {**BODY, "stream": stream, "max_tokens": tokens}
    begin = time.perf_counter()
    async with session.post(f"{SIDES[side]}/v1/chat/completions", json=body) as answer:
        text = await answer.text()
    if answer.status != 200 or "finish_reason" not in text:
        raise SystemExit(f"{side}: HTTP {answer.status}: {text}")
    return time.perf_counter() - begin


async def latency(session: aiohttp.ClientSession, *, stream: bool) -> float:
    """Milliseconds that the gateway adds at the median of requests that follow each other."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for pair in range(PAIRS):
        order = list(SIDES) if pair % 2 else list(reversed(SIDES))
        for side in order:
            seconds[side].append(await ask(session, side, stream=stream))
    middle = {side: 1e3 * statistics.median(values) for side, values in seconds.items()}
    added = middle["gateway"] - middle["plain"]
    kind = "stream" if stream else "answer"
    say(f"{kind} p50     plain {middle['plain']:7.2f} ms   gateway {middle['gateway']:7.2f} ms   added {added:+.2f} ms")
    return added


async def block(session: aiohttp.ClientSession, side: str, tokens: int) -> float:
    """Requests per second of all clients for a while."""
    end = time.perf_counter() + BLOCK_SECONDS
    done = 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await ask(session, side, tokens=tokens)
            done += 1

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return done / (time.perf_counter() - begin)


async def throughput(session: aiohttp.ClientSession, seconds: float, tokens: int, busy: str) -> float:
    """The gateway's throughput as a part of the plain ingress', all blocks of each together."""
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    used, done = {side: cpu(side) for side in SIDES}, dict.fromkeys(SIDES, 0.0)
    for number in range(max(3, round(seconds / BLOCK_SECONDS))):
        order = list(SIDES) if number % 2 else list(reversed(SIDES))
        pair = {side: await block(session, side, tokens) for side in order}
        for side in SIDES:
            rates[side].append(pair[side])
            done[side] += pair[side] * BLOCK_SECONDS
    plain, gateway = (statistics.fmean(rates[side]) for side in SIDES)
    ratio = gateway / plain
    say(f"busy {busy:<9} plain {plain:7.1f} /s   gateway {gateway:7.1f} /s   ratio {ratio:.3f}")
    own = {side: 1e3 * (cpu(side) - used[side]) / done[side] for side in SIDES}
    say(f"ingress CPU    plain {own['plain']:7.2f} ms   gateway {own['gateway']:7.2f} ms   per request")
    return ratio


def start_full() -> None:
    """A gateway whose queue is soon full, in front of a model that takes a few requests at once."""
    serve.run(model.build(config(num_replicas=1, max_ongoing_requests=SLOTS)), name="narrow", route_prefix=None)
    run_gateway("full", "narrow", {**GATEWAY, "queue": {"maxPending": SLOTS}})


async def shed(session: aiohttp.ClientSession) -> float:
    """Milliseconds to the 503 of requests that find the queue full, the slowest of 100 left out.

    2 * SLOTS requests are answered or wait; the other clients ask again 0.1 s after they were turned away.
    """
    await asyncio.to_thread(start_full)
    found: list[tuple[int, float]] = []
    end = time.perf_counter() + FULL_SECONDS

    async def client() -> None:
        while time.perf_counter() < end:
            begin = time.perf_counter()
            # Answers of a second keep the queue full.
            async with session.post(f"{FULL}/v1/chat/completions", json={**BODY, "max_tokens": 200}) as answer:
                await answer.read()
            found.append((answer.status, time.perf_counter() - begin))
            await asyncio.sleep(0.1)

    await asyncio.gather(*(client() for _ in range(2 * SLOTS + RETRYING)))
    other = {status for status, _ in found} - {200, 503}
    waited = sorted(1e3 * seconds for status, seconds in found if status == 503)
    if other or not waited:
        raise SystemExit(f"full queue: {len(waited)} requests shed, other answers: {other or 'none'}")
    slow = waited[int(0.99 * (len(waited) - 1))]
    middle = statistics.median(waited)
    say(f"full queue     {len(waited)} of {len(found)} shed, p50 {middle:.1f} ms, p99 {slow:.1f} ms")
    return slow


def cpu(side: str) -> float:
    """CPU seconds that the processes of a side's ingress have used."""
    title = f"ray::ServeReplica:{side}:OpenAiIngress".encode()
    found = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if path.read_bytes().startswith(title)]
    if len(found) != 1:
        raise SystemExit(f"{side}: {len(found)} processes of the ingress")
    # After the name in parentheses: user and system time are the 12th and 13th fields.
    times = (found[0] / "stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


async def measure(seconds: float) -> int:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for side in SIDES:
            for number in range(40):
                await ask(session, side, stream=number % 2 == 0)
        added = max([await latency(session, stream=stream) for stream in (False, True)])
        # Answers of one token keep the ingress busy, not the model.
        of_model = await throughput(session, seconds, TOKENS, "model")
        ratio = min(of_model, await throughput(session, 3 * seconds, 1, "ingress"))
        waited = await shed(session)
    good = added < MOST_ADDED_MS and ratio > LEAST_RATIO and waited < MOST_SHED_MS
    limits = f"added < {MOST_ADDED_MS:g} ms, ratio > {LEAST_RATIO:g}, shed within {MOST_SHED_MS:g} ms"
    say(f"limits         {limits}: {'met' if good else 'NOT MET'}")
    return 0 if good else 1


if __name__ == "__main__":
    start()
    sys.exit(asyncio.run(measure(float(sys.argv[1]))))
