"""Keys, limits and queue in the pipeline: many clients at once, load that is shed, a key that is revoked meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from rayllm_ctl.serving.gateway.keys import KeyDirectory
from rayllm_ctl.serving.gateway.limits.limiter import open_limits
from rayllm_ctl.serving.gateway.queue import SharedQueue
from rayllm_ctl.serving.gateway.settings import QueueSettings
from rayllm_ctl.serving.gateway.steps import Load
from tests.serving.gateway.upstream import Case, Metrics, Response, gateway


class Replicas:
    """Model replicas that take `capacity` requests, in the order in which they reached the application."""

    def __init__(self, case: Case, capacity: int) -> None:
        self.case = case
        self.case.upstream.capacity = capacity
        self.answered = 0

    def load(self) -> dict[str, Load]:
        capacity = self.case.upstream.capacity
        return {"small": Load(0, min(capacity, len(self.case.upstream.bodies) - self.answered), 1, capacity)}

    def ingress_replicas(self) -> int:
        return 1


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(20):
        digest = sha256(f"sk-{number}".encode()).hexdigest()
        limits = {"requests": "5/hour"} if number == 19 else None
        (tmp_path / f"client-{number}").write_text(json.dumps({"sha256": digest, "limits": limits}))
    return tmp_path


@pytest.fixture
def keys(directory: Path) -> Iterator[KeyDirectory]:
    made = KeyDirectory(str(directory), interval=3600)
    yield made
    made.close()


def access(keys: KeyDirectory, limits: dict[str, object], capacity: int, max_pending: int) -> tuple[Case, Replicas]:
    case = gateway({"limits": limits})
    assert case.gateway.state is not None
    settings = case.gateway.state.settings.limits
    assert settings is not None
    replicas = Replicas(case, capacity)
    queue = SharedQueue(QueueSettings(max_pending), replicas)
    case.use(keys=keys, limits=open_limits(settings, Metrics()), queue=queue)
    return case, replicas


async def ask(case: Case, client: int, content: str = "hi", **fields: object) -> Response:
    body = {"model": "small", "messages": [{"role": "user", "content": content}], **fields}
    headers = {"authorization": f"Bearer sk-{client}"}
    return await case.send("POST", "/v1/chat/completions", json.dumps(body).encode(), headers)


def test_500_clients_with_19_keys(keys: KeyDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow this machine is, the replicas can take them all.
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.PATIENCE", 60)
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.LONGEST_WAIT", 60)
    case, _ = access(keys, {"perKey": {"requests": "10/hour", "tokens": "1000/hour"}}, 500, 1)

    async def run() -> None:
        # Loading the tokenizer is not what the first ones wait for.
        assert case.gateway.state is not None
        await case.gateway.state.tokenizers.prepare("words")
        responses = await asyncio.gather(*(ask(case, number % 19) for number in range(500)))
        assert Counter(response.status for response in responses) == {200: 190, 429: 310}
        for response in responses:
            assert response.headers["x-ratelimit-limit-requests"] == "10"
            if response.status == 429:
                assert response.error["code"] == "rate_limit_exceeded"
                assert 3000 < int(response.headers["retry-after"]) <= 3600
        left = Counter(response.headers["x-ratelimit-remaining-requests"] for response in responses)
        assert left == {"0": 500 - 9 * 19, **{str(number): 19 for number in range(1, 10)}}
        await asyncio.sleep(0.15)
        # A prompt of 3 tokens and an answer of 7, ten times.
        again = await ask(case, 0)
        assert again.headers["x-ratelimit-remaining-tokens"] == "900"
        own = await ask(case, 19)
        assert own.headers["x-ratelimit-limit-requests"] == "5"
        assert own.headers["x-ratelimit-remaining-tokens"] == "997", "other limits are those of all keys"
        invalid = await ask(case, 0, temperature="hot")
        assert (invalid.status, invalid.headers["x-ratelimit-remaining-requests"]) == (400, "0")

    asyncio.run(run())


def test_load_is_shed_before_too_many_wait(keys: KeyDirectory) -> None:
    case, replicas = access(keys, {"perKey": {"requests": "100/hour"}}, 5, 3)
    case.upstream.gate = asyncio.Event()

    async def run() -> None:
        running = [asyncio.create_task(ask(case, 1, "wait", stream=True)) for _ in range(500)]
        while sum(task.done() for task in running) < 492:
            await asyncio.sleep(0)
        shed = [task.result() for task in running if task.done()]
        assert {response.status for response in shed} == {503}
        assert {response.error["code"] for response in shed} == {"queue_full"}
        assert all(int(response.headers["retry-after"]) >= 1 for response in shed)
        assert case.upstream.gate is not None
        figures = (await case.send("GET", "/queue", headers={"authorization": "Bearer sk-1"})).json
        assert {name: figures[name] for name in ("pending", "running", "replicas", "maxPending")} == {
            "pending": 3, "running": 5, "replicas": 1, "maxPending": 3,
        }  # fmt: skip
        case.upstream.gate.set()
        answered = await asyncio.gather(*running)
        assert Counter(response.status for response in answered) == {200: 8, 503: 492}
        replicas.answered = 8
        after = await ask(case, 1)
        assert after.headers["x-ratelimit-remaining-requests"] == "91", "what was shed counts against no limit"

    asyncio.run(run())


def test_a_key_revoked_while_it_and_others_stream(keys: KeyDirectory, directory: Path) -> None:
    case, _ = access(keys, {"perKey": {"requests": "100/hour"}}, 5, 3)
    case.upstream.gate = asyncio.Event()

    async def run() -> None:
        streams = [asyncio.create_task(ask(case, client, "wait", stream=True)) for client in (1, 2, 1)]
        while len(case.upstream.bodies) < 3:
            await asyncio.sleep(0)
        (directory / "client-1").unlink()
        keys.refresh()
        assert (await ask(case, 1)).status == 401
        assert (await ask(case, 2)).status == 200
        assert case.upstream.gate is not None
        case.upstream.gate.set()
        for stream in await asyncio.gather(*streams):
            assert (stream.status, stream.body.endswith(b"data: [DONE]\n\n")) == (200, True)

    asyncio.run(run())
