"""Serve configuration files of the user's own: two applications with their code; a chat class over HTTP and gRPC."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from e2e.asked import APPLICATIONS, posted, said_over_grpc
from e2e.harness import Bench

pytestmark = pytest.mark.xdist_group("serveconfig")


def deployed(bench: Bench, name: str, *more: str) -> str:
    """What `deploy` said of one of the files of `applications`."""
    file = str(APPLICATIONS / f"{name}.yaml")
    result = bench.run(
        "deploy", "--serve-config", file, "--code", str(APPLICATIONS), "--image", bench.target.image,
        "-n", bench.namespace, *more,
    )  # fmt: skip
    return result.err


@pytest.mark.slow
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
    assert said_over_grpc(bench, "chat-serve-svc", "chat")


LLMS = """applications:
- name: llms
  import_path: ray.serve.llm:build_openai_app
  route_prefix: /
  args:
    llm_configs:
    - model_loading_config: {model_id: tiny, model_source: /models/tiny}
      accelerator_config: {kind: cpu}
      engine_kwargs: {max_model_len: 1024, enforce_eager: true}
      deployment_config: {autoscaling_config: {min_replicas: 1, max_replicas: 1}}
"""


@pytest.mark.slow
def test_a_model_of_ray_serve_llm(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "llms.yaml"
    file.write_text(LLMS)
    flags = ("--serve-config", str(file), "--image", bench.target.image, "-n", bench.namespace)
    said = bench.run("deploy", *flags).err
    assert "group cpu: 1 workers of" in said
    assert "llms/LLMServer:tiny ×1" in said
    assert bench.run("chat", "llms", "Hello", "-n", bench.namespace, "--max-tokens", "8").out.strip()
    assert (
        bench.run("endpoint", "llms", "-n", bench.namespace).out == f"http://llms-serve-svc.{bench.namespace}:8000/v1\n"
    )
    file.write_text(LLMS.replace("1024", "512"))
    changed = bench.run("diff", *flags, "--fail-on", "outage", code=6)
    assert "LLMServer:tiny (1 replica)" in changed.out
