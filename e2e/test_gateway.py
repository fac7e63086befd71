"""The gateway of a service, asked by OpenAI's own client. test_held.py has its queue, its keys and lost replicas.

One service for all tests, with the tiny model twice: in vLLM, and in the Transformers engine.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from e2e.harness import Bench

pytestmark = pytest.mark.xdist_group("gateway")

ROOT = Path(__file__).parents[1]
TINY, NARROW = "tiny", "test/narrow"
SLOTS = 4
ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is Ray?"}]
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Bonn", "Berlin"]}, "people": {"enum": [1, 22]}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
GATEWAY = {
    "keys": {"secret": "clients"},
    "queue": {"maxPending": 6},
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

    def new_key(self, name: str, *more: str) -> str:
        bench = self.bench
        made = bench.run("keys", "create", "--secret", "clients", "--key-name", name, *more, "-n", bench.namespace)
        return made.out.strip()


@pytest.fixture(scope="module")
def gateway(shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
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
            "engine": {"image": shared.target.image},
            "resources": {"ingress": {"cpu": "500m", "memory": "3Gi"}},
            "ray": {"idleTimeout": "10s"},
            "gateway": GATEWAY,
        },
    }
    folder = tmp_path_factory.mktemp("gateway")
    shared.copy_tiny(folder / "tiny")
    shutil.copytree(folder / "tiny", folder / "narrow")
    file = folder / "gate.json"
    file.write_text(json.dumps(document))
    made = Gateway(shared, file, "", "")
    made.key = made.new_key("everything")
    configs = ("--model-config", str(folder), "--offline")
    shared.run("deploy", "-f", str(file), *configs, "-n", shared.namespace)

    def is_known() -> bool:
        # The nodes' rules for the Service follow its endpoints: a connection may be refused, or lost without an answer.
        client = made.client().with_options(timeout=10)
        try:
            return bool(client.models.list().data)
        except openai.APIConnectionError as error:
            print(f"{made.url}: {error.__cause__!r}")
            return False

    with shared.reached("gate") as made.url:
        shared.wait("the key is known", is_known, timeout=90)
        yield made


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
    # vLLM's front end accepts it, and its engine cannot compile it.
    schema = {"name": "a", "schema": {"type": "string", "minLength": -1}}
    impossible = {"type": "json_schema", "json_schema": schema}
    assert error(openai.BadRequestError, model=TINY, response_format=impossible).param == "response_format"
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


def test_a_body_that_is_too_large_is_not_asked_for(gateway: Gateway) -> None:
    address = urlsplit(gateway.url)
    assert address.hostname is not None
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
        "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 70000\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port or 80), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_its_manifests_can_be_applied_by_the_client(gateway: Gateway) -> None:
    """Client-side apply puts each object into one of its annotations, whose size the API server limits."""
    bench = gateway.bench
    configs = ("--model-config", str(gateway.file.parent), "--offline")
    text = bench.run("render", "-f", str(gateway.file), *configs, "-n", bench.namespace).out
    bench.kubectl("apply", "--dry-run=server", "-n", bench.namespace, "-f", "-", input_text=text)


def test_another_gateway_restarts_the_ingress_alone(gateway: Gateway, tmp_path: Path) -> None:
    """A release of rayllm-ctl that differs in the gateway: the ingress has its code, and no engine or head restarts."""
    bench = gateway.bench
    shutil.copytree(ROOT / "rayllm_ctl", tmp_path / "rayllm_ctl")
    pipeline = tmp_path / "rayllm_ctl/serving/gateway/pipeline.py"
    text = pipeline.read_text()
    assert '{"status":"ok"}' in text
    pipeline.write_text(text.replace('{"status":"ok"}', '{"status":"other"}'))

    def pods() -> set[str]:
        # A second worker of the ingress may be started while the replica before still answers.
        found = bench.items("pods", "rayllm.io/service=gate,ray.io/group!=ingress")
        return {pod["metadata"]["uid"] for pod in found}

    before = pods()
    flags = ("--model-config", str(gateway.file.parent), "--offline", "--accept-outage", "-n", bench.namespace)
    done = subprocess.run(
        [sys.executable, "-m", "rayllm_ctl", "deploy", "-f", str(gateway.file), *flags], cwd=tmp_path,
        env=bench.target.environment, capture_output=True, text=True, timeout=420, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OpenAiIngress" in done.stderr
    assert "RayCluster" not in done.stderr

    def health() -> bytes:
        with suppress(OSError), urllib.request.urlopen(f"{gateway.url}/health", timeout=60) as response:
            return bytes(response.read())
        return b""

    bench.wait("the ingress has the other code", lambda: b"other" in health(), timeout=240)
    assert pods() == before
    assert gateway.client().chat.completions.create(model=TINY, messages=ASK, max_tokens=2).choices
