"""The gateway of a service, asked by OpenAI's own client.

One service for all tests, with the tiny model twice: in vLLM, and in the Transformers engine, which answers few
requests at a time here. vLLM's processes wait for each other without a pause and leave a small machine nothing, so the
tests with many long answers ask the other one.
"""

from __future__ import annotations

import http.client
import json
import re
import select
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import yaml
from openai.types.chat import ChatCompletionMessageParam

from e2e.cluster.progress import to_stderr
from e2e.harness import Bench, Target
from e2e.images import serving
from e2e.load import Load

TINY, NARROW = "tiny", "test/narrow"
SLOTS, MAX_PENDING = 4, 6
ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is Ray?"}]
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Bonn", "Berlin"]}, "people": {"enum": [1, 22]}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
GATEWAY = {
    "keys": {"secret": "clients"},
    "queue": {"maxPending": MAX_PENDING},
    "cleaning": {},
    "validation": {"promptTokens": {"max": 100}, "maxBodyBytes": "64Ki"},
}


@dataclass
class Gateway:
    """The service under test, its address, and a key for all models."""

    bench: Bench
    file: Path
    url: str
    key: str

    def client(self, key: str | None = None) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or self.key, max_retries=0, timeout=120)

    def queue(self) -> dict[str, Any]:
        figures: dict[str, Any] = self.client().get("../queue", cast_to=dict[str, Any])
        return figures

    def new_key(self, name: str, *more: str) -> str:
        bench = self.bench
        made = bench.run("keys", "create", "--secret", "clients", "--key-name", name, *more, "-n", bench.namespace)
        return made.out.strip()

    def deploy(self, **gateway: Any) -> None:
        """Deploy with other settings of the gateway."""
        document = json.loads(self.file.read_text())
        document["spec"]["gateway"] = {**GATEWAY, **gateway}
        self._deploy(document)

    def scale(self, replicas: int, *flags: str) -> None:
        """Deploy with a fixed number of replicas of NARROW and `flags`, and wait until they are as many."""
        document = json.loads(self.file.read_text())
        (narrow,) = [model for model in document["spec"]["models"] if model["id"] == NARROW]
        narrow["replicas"] = {"min": replicas, "max": replicas}
        self._deploy(document, *flags)
        # One more is of the other model.
        self.bench.wait("the replicas", lambda: self.queue()["replicas"] == replicas + 1, timeout=180)

    def _deploy(self, document: dict[str, Any], *flags: str) -> None:
        self.file.write_text(json.dumps(document))
        configs = ("--model-config", str(self.file.parent))
        self.bench.run("deploy", "-f", str(self.file), *configs, "--offline", *flags, "-n", self.bench.namespace)

    def idle(self) -> None:
        self.bench.wait("nothing runs", lambda: self.queue()["running"] == self.queue()["pending"] == 0, timeout=90)


@pytest.fixture(scope="module")
def gateway(own: Target, shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    tiny = {
        "id": TINY, "name": TINY, "path": "/models/tiny", "accelerator": {"kind": "cpu"},
        "engine": {
            "maxModelLen": 2048,
            "args": {
                "enforce_eager": True,
                "enable_auto_tool_choice": True,
                "tool_call_parser": "hermes",
                # Where white space may be, a model of this size writes nothing else.
                "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            },
        },
    }  # fmt: skip
    narrow = {
        "id": NARROW, "name": "narrow", "path": "/models/tiny", "accelerator": {"kind": "cpu"},
        "engine": {"kind": "transformers", "maxModelLen": 2048, "maxNumSeqs": SLOTS},
    }  # fmt: skip
    document = {
        "apiVersion": "rayllm.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "gate"},
        "spec": {
            "models": [tiny, narrow],
            "engine": {"image": own.image},
            "resources": {"ingress": {"cpu": "500m", "memory": "3Gi"}},
            "ray": {"idleTimeout": "10s"},
            "gateway": GATEWAY,
        },
    }
    folder = tmp_path_factory.mktemp("gateway")
    for name in ("tiny", "narrow"):
        shutil.copytree(serving.ensure_model(to_stderr()), folder / name)
    file = folder / "gate.json"
    file.write_text(json.dumps(document))
    made = Gateway(shared, file, "", "")
    made.key = made.new_key("everything")
    made.deploy()
    address = shared.get("service", "gate-serve-svc")["spec"]["clusterIP"]
    made.url = f"http://{address}:8000"
    shared.wait("the key is known", lambda: made.client().models.list().data, timeout=90)
    return made


def test_chat_and_models(gateway: Gateway) -> None:
    client = gateway.client()
    assert [model.id for model in client.models.list()] == [TINY, NARROW]
    answer = client.chat.completions.create(model=TINY, messages=ASK, max_tokens=30, temperature=0)
    text = answer.choices[0].message.content
    assert text is not None
    assert "framework" in text
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 5
    parts = client.chat.completions.create(model=TINY, messages=ASK, max_tokens=30, temperature=0, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == text
    cleaned = client.chat.completions.with_raw_response.create(
        model=NARROW, messages=[{"role": "user", "content": "a\x01b\u202e"}], max_tokens=2
    )
    assert cleaned.headers["x-prompt-cleaned"] == "control=1,bidi=1"


def test_chat_sends_the_key_through_a_forwarded_port(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(gateway.key)
    bench, asked = gateway.bench, ("chat", "gate", "Hello", "--model", TINY, "--max-tokens", "8")
    assert bench.run(*asked, "--api-key-file", str(file), "-n", bench.namespace).out.strip()
    refused = bench.run(*asked, "-n", bench.namespace, code=None)
    assert refused.code != 0
    assert "key" in refused.err, str(refused)


def test_the_proxies_have_their_part_of_the_gateway(gateway: Gateway) -> None:
    asked = http.client.HTTPConnection(urlsplit(gateway.url).netloc)
    asked.request("GET", "/health", headers={"x-request-id": "id-of-mine"})
    answer = asked.getresponse()
    assert (answer.read(), answer.headers.get_all("x-request-id")) == (b'{"status":"ok"}', ["id-of-mine"])
    asked.request("GET", "/-/routes")
    assert asked.getresponse().status == 404


def _no_white_space(folder: Path) -> dict[str, int]:
    """Where the grammar of a tool call allows white space, a model of this size writes nothing else."""
    vocabulary = json.loads((folder / TINY / "tokenizer.json").read_text())["model"]["vocab"]
    return {str(number): -100 for token, number in vocabulary.items() if set(token) <= set("\u0120\u010a\u010d\u0109")}


def test_tool_calls_and_json_schema(gateway: Gateway) -> None:
    client = gateway.client()
    called = client.chat.completions.create(
        model=TINY, messages=ASK, max_tokens=200, temperature=0,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": CITY}}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        logit_bias=_no_white_space(gateway.file.parent),
    ).choices[0].message.tool_calls  # fmt: skip
    assert called
    assert called[0].type == "function"
    assert called[0].function.name == "weather"
    assert set(json.loads(called[0].function.arguments)) == {"city", "people"}
    answer = client.chat.completions.create(
        model=TINY, messages=ASK, max_tokens=80, temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}},
    )  # fmt: skip
    assert set(json.loads(answer.choices[0].message.content or "")) == {"city", "people"}


def test_decoding_strategies_of_the_transformers_engine(gateway: Gateway) -> None:
    client = gateway.client()

    def ask(**more: Any) -> str:
        answer = client.chat.completions.create(model=NARROW, messages=ASK, max_tokens=24, extra_body=more)
        assert answer.usage is not None
        assert 0 < answer.usage.completion_tokens <= 24
        return answer.choices[0].message.content or ""

    greedy, beams = ask(decoding="greedy"), ask(decoding="beam_search", num_beams=SLOTS)
    assert greedy == ask(temperature=0)
    assert beams == ask(decoding="beam_search", num_beams=SLOTS)
    sampled = {seed: ask(seed=seed, temperature=1.5) for seed in (1, 2, 3)}
    assert sampled[1] == ask(seed=1, temperature=1.5)
    # The model is sure of itself: its likeliest text is also that of the best beam.
    assert len({*sampled.values(), beams}) == 4
    options: list[tuple[dict[str, Any], str]] = [
        ({"decoding": "contrastive_search"}, "decoding"),
        ({"decoding": "beam_search", "num_beams": SLOTS + 1}, "num_beams"),
        ({"decoding": "greedy", "temperature": 1}, "temperature"),
        ({"num_beams": 2}, "num_beams"),
        ({"tools": [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]}, "tools"),
    ]
    for given, field in options:
        with pytest.raises(openai.BadRequestError) as caught:
            ask(**given)
        assert caught.value.param == field, caught.value


def test_errors(gateway: Gateway) -> None:
    client = gateway.client()

    def error(kind: type[openai.APIStatusError], **request: Any) -> openai.APIStatusError:
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**{"model": NARROW, "messages": ASK, "max_tokens": 2, **request})
        text = caught.value.response.text
        assert "Traceback" not in text
        assert "/models" not in text
        return caught.value

    assert error(openai.NotFoundError, model="none").code == "model_not_found"
    assert error(openai.BadRequestError, temperature=3).param == "temperature"
    assert (
        error(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 200}]).code == "prompt_too_long"
    )
    assert error(openai.BadRequestError, model=TINY, logprobs=True, top_logprobs=99).status_code == 400
    too_large = [{"role": "user", "content": "x" * 70_000}]
    assert error(openai.APIStatusError, messages=too_large).status_code == 413
    with pytest.raises(openai.AuthenticationError):
        gateway.client("sk-wrong").models.list()
    restricted = gateway.new_key("restricted", "--models", TINY)
    gateway.bench.wait("the key is known", lambda: _permitted(gateway, restricted), timeout=90)
    with pytest.raises(openai.PermissionDeniedError):
        gateway.client(restricted).chat.completions.create(model=NARROW, messages=ASK, max_tokens=2)


def _permitted(gateway: Gateway, key: str) -> bool:
    try:
        return [model.id for model in gateway.client(key).models.list()] == [TINY]
    except openai.AuthenticationError:
        return False


@pytest.fixture
def two_ingresses(gateway: Gateway) -> Iterator[None]:
    """Another replica of the ingress while a test runs: a service on CPUs begins with one."""
    bench = gateway.bench

    def fix(number: int) -> None:
        config = yaml.safe_load(bench.get("rayservice", "gate")["spec"]["serveConfigV2"])
        (ingress,) = config["applications"][0]["deployments"]
        ingress["autoscaling_config"].update(min_replicas=number, max_replicas=number)
        patch = json.dumps({"spec": {"serveConfigV2": yaml.safe_dump(config)}})
        bench.kubectl("patch", "rayservice", "gate", "-n", bench.namespace, "--type=merge", "--patch", patch)
        bench.wait(f"ingresses: {number}", lambda: len(_pods(bench, "ingress")) == number, timeout=240)

    fix(2)
    yield
    fix(1)
    gateway.scale(1, "--force-conflicts")  # kubectl owns what it has patched


@pytest.mark.usefixtures("two_ingresses")
def test_the_bound_of_the_queue_holds_over_both_ingresses(gateway: Gateway) -> None:
    client = gateway.client()
    shed: list[tuple[float, openai.InternalServerError]] = []
    answered: list[float] = []

    def ask(number: int) -> None:
        time.sleep(number * 0.1)
        begin = time.monotonic()
        try:
            client.chat.completions.create(model=NARROW, messages=ASK, max_tokens=1500, extra_body={"ignore_eos": True})
            answered.append(time.monotonic() - begin)
        except openai.InternalServerError as error:
            shed.append((time.monotonic() - begin, error))

    with ThreadPoolExecutor(24) as pool:
        asked = [pool.submit(ask, number) for number in range(24)]
        figures = []
        while not all(one.done() for one in asked):
            figures.append(gateway.queue())
            time.sleep(0.3)
        for one in asked:
            one.result()
    assert max(one["pending"] for one in figures) in range(MAX_PENDING // 2, MAX_PENDING + 1)
    assert max(one["running"] for one in figures) == SLOTS
    assert {(one["replicas"], one["maxPending"]) for one in figures} == {(2, MAX_PENDING)}
    assert len(answered) >= SLOTS + MAX_PENDING // 2
    assert shed
    for _, error in shed:
        assert (error.status_code, error.code) == (503, "queue_full")
        assert int(error.response.headers["retry-after"]) >= 1
    # A request that is turned away has waited for nothing. The machine that serves also asks: the slowest say little.
    assert median(seconds for seconds, _ in shed) < median(answered) / 10
    gateway.idle()
    logs = _access_logs(gateway.bench).values()
    asked_of = [sum(line["route"] == "/v1/chat/completions" for line in lines) for lines in logs]
    assert len(asked_of) == 2
    assert min(asked_of) > 3


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_frees_its_place(gateway: Gateway, stream: bool) -> None:
    body = {"model": NARROW, "messages": ASK, "max_tokens": 1900, "ignore_eos": True, "stream": stream}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {gateway.key}"}

    def ask(*, leaves: bool) -> tuple[float, float]:
        """Seconds from a request until nothing was seen to run, and from its client's end until it was last seen to.

        A client that leaves does so when the request runs.
        """
        client = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=120)
        client.connect()

        def answers() -> bool:
            return bool(select.select([client.sock], [], [], 0)[0])

        def begun() -> bool:
            return answers() or gateway.queue()["running"] == 1

        begin = time.monotonic()
        client.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        if leaves:
            gateway.bench.wait("it runs", begun, timeout=90, pause=0.1)
        if not leaves or answers():
            answer = client.getresponse()
            assert answer.status == 200
            assert leaves or answer.read()
        client.close()
        left = seen = time.monotonic()

        def runs() -> bool:
            nonlocal seen
            looked = time.monotonic()
            if gateway.queue()["running"] == 0:
                return False
            seen = looked
            return True

        gateway.bench.wait("nothing runs", lambda: not runs(), timeout=60, pause=0.1)
        return time.monotonic() - begin, seen - left

    whole, _ = ask(leaves=False)
    tries: list[float] = []
    # Where both cores are busy a look may take as long as an answer, and then tells nothing.
    while not tries or (tries[-1] >= whole / 2 and len(tries) < 5):
        ended, went_on = ask(leaves=True)
        assert went_on < whole / 2
        tries.append(ended)
    assert tries[-1] < whole / 2, (whole, tries)


def test_a_key_that_is_revoked_ends_no_response_and_begins_none(gateway: Gateway) -> None:
    bench = gateway.bench
    key = gateway.new_key("brief")

    def known() -> bool:
        try:
            return bool(gateway.client(key).models.list().data)
        except openai.AuthenticationError:
            return False

    bench.wait("the key is known", known, timeout=90)
    parts = gateway.client(key).chat.completions.create(
        model=NARROW, messages=ASK, max_tokens=400, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(parts))
    revoker = threading.Thread(
        target=bench.run, args=("keys", "revoke", "--secret", "clients", "--key-name", "brief", "-n", bench.namespace)
    )
    revoker.start()
    last = None
    for part in parts:
        last = part.choices[0].finish_reason if part.choices else last
    revoker.join()
    assert last == "length"
    bench.wait("the key is not valid", lambda: not known(), timeout=60)


def test_settings_change_in_place(gateway: Gateway) -> None:
    bench = gateway.bench
    before = {one["replica_id"] for one in _replicas(bench)}
    with Load(gateway.url, NARROW, clients=3, max_tokens=20, key=gateway.key) as load:
        bench.wait("answers", lambda: load.answered > 2, timeout=60)
        gateway.deploy(validation={"outputTokens": {"max": 7}})
        bench.wait("the limit", lambda: _tokens(gateway) == 7, timeout=60)
        asked = load.answered
        bench.wait("more answers", lambda: load.answered > asked + 2, timeout=60)
        gateway.deploy()  # the next tests need long answers
        bench.wait("no limit", lambda: _tokens(gateway) > 7, timeout=60)
    assert not load.failed, load.failed[:3]
    assert {one["replica_id"] for one in _replicas(bench)} == before


def test_no_request_is_lost_while_a_model_gets_a_second_replica_and_loses_it(gateway: Gateway) -> None:
    with Load(gateway.url, NARROW, clients=6, max_tokens=60, key=gateway.key) as load:
        gateway.bench.wait("answers", lambda: load.answered > 2, timeout=60)
        gateway.scale(2)
        asked = load.answered
        gateway.bench.wait("more answers", lambda: load.answered > asked + 20, timeout=60)
        gateway.scale(1)
    print(f"\none replica, two, one: {load.figures()}")
    assert not load.failed, load.failed[:3]
    (cluster,) = gateway.bench.items("rayclusters")
    (group,) = [one for one in cluster["spec"]["workerGroupSpecs"] if one["groupName"] == "narrow"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 1)


def test_a_killed_replica_costs_the_streams_that_had_begun_and_no_other_request(gateway: Gateway) -> None:
    gateway.scale(2)
    # Two more than one replica takes, and all but one wait for a whole answer: each has one that can be sent again. An
    # answer takes long beside the time between two of them, in which a replica has fewer.
    with Load(gateway.url, NARROW, clients=SLOTS + 2, max_tokens=400, key=gateway.key, streaming=1) as load:
        # One that is killed between two answers may have none at that moment.
        retried = next((found for _ in range(8) if (found := _sent_again_for_a_killed_replica(gateway, load))), 0)
    print(f"\nreplica killed: {load.figures()}; {retried} requests sent again")
    for one in load.failed:
        print(f"  {one}")
    assert retried > 0
    # Nothing but streams, each with a part of an answer before the error.
    begun = re.compile(r'the stream broke off: .*"finish_reason":null.*"code":"replica_lost"')
    assert not [one for one in load.failed if not begun.match(one.error)]
    # The end of the second worker takes minutes: an object of the killed replica keeps Ray from calling it idle.
    gateway.scale(1, "--no-wait")


def _sent_again_for_a_killed_replica(gateway: Gateway, load: Load) -> int:
    """Kill one of two busy replicas. How many requests were sent again since the gateway runs."""
    bench = gateway.bench

    def both_busy() -> bool:
        # With all of the load at once each of them has two requests or more, and one of these waits for a whole answer.
        return load.answered > 10 and gateway.queue()["running"] >= SLOTS + 2

    # Not any pod of the group: one may still hold a replica that ends.
    bench.wait("two replicas", lambda: len(_pods(bench, "narrow")) == 2, timeout=90)
    killed = _pods(bench, "narrow")[0]
    bench.wait("both are busy", both_busy, timeout=90, pause=0.2)
    lost = len(load.failed)
    # A pod that is deleted, by force as well, lets its processes end requests of a second.
    ended = ("pkill", "-KILL", "-f", "^ray::ServeReplica")
    bench.kubectl("exec", killed, "-c", "ray-worker", "-n", bench.namespace, "--", *ended)
    asked = load.answered
    bench.wait("more answers", lambda: load.answered > asked + 20, timeout=60)
    assert len(load.failed) <= lost + 1
    return sum(1 for lines in _access_logs(bench).values() for line in lines if line.get("retries"))


def _pods(bench: Bench, group: str) -> list[str]:
    """The pods of a worker group in which a replica runs."""
    pods = [one["node_instance_id"] for one in _replicas(bench) if one["state"] == "RUNNING"]
    return [pod for pod in pods if f"-{group}-" in pod]


def _access_logs(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """What the ingresses logged of their requests, by pod."""
    logs = {}
    for pod in bench.items("pods", "ray.io/group=ingress"):
        name = pod["metadata"]["name"]
        command = "cat /tmp/ray/session_latest/logs/serve/replica_*OpenAiIngress*.log"
        log = bench.kubectl("exec", name, "-c", "ray-worker", "-n", bench.namespace, "--", "sh", "-c", command)
        lines = [line for line in log.splitlines() if '"request_id"' in line and '"route"' in line]
        logs[name] = [json.loads(line[line.index('{"time"') :]) for line in lines]
    return logs


def _tokens(gateway: Gateway) -> int:
    answer = gateway.client().chat.completions.create(model=NARROW, messages=ASK, max_tokens=20)
    assert answer.usage is not None
    return answer.usage.completion_tokens


def _replicas(bench: Bench) -> list[dict[str, Any]]:
    """What Serve says of the replicas of all applications."""
    (cluster,) = bench.items("rayclusters")
    served = json.loads(bench.serve_answer(cluster["metadata"]["name"]))
    deployments = [one for app in served["applications"].values() for one in app["deployments"].values()]
    return [replica for one in deployments for replica in one["replicas"]]
