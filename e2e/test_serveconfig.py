"""Serve configuration files of the user's own: two applications with their code; a chat class over HTTP and gRPC."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Bench

APPLICATIONS = Path(__file__).parent / "applications"

SAY = """
import grpc
from google.protobuf.wrappers_pb2 import StringValue

channel = grpc.insecure_channel("{address}")
say = channel.unary_unary("/e2e.Chat/Say", request_serializer=StringValue.SerializeToString,
                          response_deserializer=StringValue.FromString)
# kube-proxy takes a moment on a busy node to know the port of a Service that is new.
print("answer:", say(StringValue(value="Hello"), timeout=60, wait_for_ready=True).value)
"""


def deployed(bench: Bench, name: str, *more: str) -> str:
    """What `deploy` said of one of the files of `applications`."""
    file = str(APPLICATIONS / f"{name}.yaml")
    result = bench.run(
        "deploy", "--serve-config", file, "--code", str(APPLICATIONS), "--image", bench.target.image,
        "-n", bench.namespace, *more,
    )  # fmt: skip
    return result.err


def posted(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_a_translator_and_a_summarizer(bench: Bench) -> None:
    said = deployed(bench, "text")
    assert "group cpu: 1..4 workers of 1 CPU" in said
    assert "application summarize" in said
    with bench.proxied("text-serve-svc", 8000) as url:
        assert posted(f"{url}/translate", "Hello")["language"] == "french"
        summary = posted(f"{url}/summarize", "It was the best of times")
    assert summary["language"] == "german"
    assert summary["text"].startswith(summary["summary"])

    health = bench.run("status", "text", "-n", bench.namespace, "-o", "json").json()
    assert health["state"] == "Ready"
    applications = {node["name"] for node in health["tree"] if node["kind"] == "application"}
    assert applications == {"summarize", "translate"}
    refused = bench.run("chat", "text", "Hello", "-n", bench.namespace, code=1)
    assert "has no OpenAI-compatible API" in refused.err

    live = bench.run("serve-config", "text", "-n", bench.namespace).out
    assert yaml.safe_load(live) == yaml.safe_load((APPLICATIONS / "text.yaml").read_text())
    again = deployed(bench, "text")
    assert "configmap/" in again
    assert again.count("unchanged") == 2, again
    bench.run("delete", "text", "-n", bench.namespace)
    assert not bench.items("configmaps", "app.kubernetes.io/instance=text")


def test_a_chat_class_over_http_and_grpc(bench: Bench) -> None:
    said = deployed(bench, "chat")
    assert '"127.0.0.1" is reachable in the pod alone: replaced by 0.0.0.0' in said
    ports = {port["name"]: port["port"] for port in bench.get("service", "chat-serve-svc")["spec"]["ports"]}
    assert ports == {"serve": 8901, "serve-grpc": 9000}
    with bench.proxied("chat-serve-svc", 8901) as url:
        assert posted(url, {"message": "Hello"})["answer"]
    [head] = bench.items("pods", "ray.io/node-type=head")
    address = f"chat-serve-svc.{bench.namespace}:9000"
    said = bench.kubectl(
        "exec", "-n", bench.namespace, head["metadata"]["name"], "-c", "ray-head", "--",
        "python3", "-c", SAY.format(address=address),
    )  # fmt: skip
    assert said.startswith("answer:")
