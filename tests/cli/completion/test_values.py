"""The values that completion offers, and that nothing but them is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rayllm_ctl.cli.completion import answer as completion
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Complete:
    def run(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(("rayllm-ctl", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        completion.answer_shell("bash_complete")
        out, err = capfd.readouterr()
        assert err == ""
        return [line.removeprefix("plain,") for line in out.splitlines() if line]

    return run


@pytest.fixture
def server() -> Iterator[FakeAPI]:
    with serving() as api:
        yield api


@pytest.fixture
def cluster(server: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAPI:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", server.url, token="t")))
    for name in ("llm", "search"):
        server.put(apiVersion="v1", kind="Namespace", metadata={"name": name})
    for name, namespace in (("chat", "llm"), ("code", "llm"), ("other", "search")):
        server.put(apiVersion="ray.io/v1", kind="RayService", metadata={"name": name, "namespace": namespace})
    server.put(
        apiVersion="ray.io/v1", kind="RayCluster",
        metadata={"name": "bare", "namespace": "llm", "annotations": {"rayllm.io/model": "x"}},
    )  # fmt: skip
    server.put(apiVersion="ray.io/v1", kind="RayCluster", metadata={"name": "foreign", "namespace": "llm"})
    server.put(apiVersion="ray.io/v1", kind="RayJob", metadata={"name": "summaries", "namespace": "llm"})
    return server


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("plan --gpu l40", ["L40", "L40S"]),
        ("plan --model qwen/qwq-32b-a", ["Qwen/QwQ-32B-AWQ"]),
        ("plan qwen/qwq-32b-a", ["Qwen/QwQ-32B-AWQ"]),
        ("plan --dtype b", ["bfloat16"]),
        ("deploy --kv-cache-dtype fp8_e4", ["fp8_e4m3"]),
        ("deploy --pod-security b", ["baseline"]),
        ("render --kuberay-version 1.6", ["1.6"]),
        ("gpus h200-1", ["H200-141GB"]),
        ("models qwen/qwq-32b-a", ["Qwen/QwQ-32B-AWQ"]),
        ("explain batchjob.spec.inp", ["batchjob.spec.input"]),
        ("explain spec.replicas.mi", ["spec.replicas.min"]),
        ("rbac --for o", ["operator"]),
        ("config set hf", ["hf-token-secret"]),
        ("config unset gp", ["gpu", "gpu-memory-utilization"]),
        ("config set gpu h200-n", ["H200-NVL"]),
        ("config set offline t", ["true"]),
        ("config set pod-security b", ["baseline"]),
        ("scale --model x", []),
        ("help rest", ["restart"]),
        ("help batch ca", ["cancel"]),
        ("help batch cancel x", []),
        ("help nonsense x", []),
    ],
)
def test_values_of_flags_and_arguments(words: str, values: list[str], complete: Complete) -> None:
    found = complete(*words.split())
    if words.startswith("explain"):
        found = found[: len(values)]  # what follows are the fields below
    assert found == values


def test_bench_has_the_flags_of_bench_run(complete: Complete) -> None:
    assert complete("bench", "--ur") == ["--url"]
    assert complete("bench", "--") == complete("bench", "run", "--")
    assert complete("bench", "--color", "never", "--find") == ["--find-max"]
    assert complete("bench", "swe") == ["sweep"]
    assert complete("keys", "--he") == ["--help", "--help-all"]


def test_names_are_those_of_the_cluster(cluster: FakeAPI, complete: Complete) -> None:
    assert complete("status", "c") == ["chat", "code"]
    assert complete("scale", "ba") == ["bare"]
    assert complete("status", "f") == []
    assert complete("status", "-n", "search", "o") == ["other"]
    assert complete("status", "-n", "s") == ["search"]
    assert complete("batch", "status", "s") == ["summaries"]
    (context,) = complete("status", "--context", "")
    assert complete("status", "--context", context, "ch") == ["chat"]


def test_a_namespace_of_the_environment_is_that_of_the_names(
    cluster: FakeAPI, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLLM_NAMESPACE", "search")
    assert complete("status", "o") == ["other"]


def test_names_are_kept_for_some_seconds(cluster: FakeAPI, complete: Complete) -> None:
    assert complete("status", "c") == ["chat", "code"]
    asked = len(cluster.requests)
    assert asked > 0
    cluster.remove("RayService", "chat")
    assert complete("status", "c") == ["chat", "code"]
    assert len(cluster.requests) == asked
    (kept,) = (Path(os.environ["XDG_CACHE_HOME"]) / "rayllm-ctl" / "completion").iterdir()
    assert json.loads(kept.read_text()) == ["bare", "chat", "code"]
    assert kept.parent.stat().st_mode & 0o77 == 0
    os.utime(kept, (time.time() - 60, time.time() - 60))
    assert complete("status", "c") == ["code"]


def test_what_the_user_may_not_list_is_left_out(cluster: FakeAPI, complete: Complete) -> None:
    cluster.granted = {("list", "rayclusters.ray.io", False)}
    assert complete("status", "") == ["bare"]
    assert complete("status", "-n", "") == []


def test_a_cluster_that_does_not_answer_costs_nothing_more_than_once(
    server: FakeAPI, tmp_path: Path, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", server.url, token="t")))
    monkeypatch.setattr("rayllm_ctl.cli.completion.cluster._ALL_SECONDS", 0.2)
    server.hang("GET", "rayservices")
    assert complete("status", "") == []
    asked = len(server.requests)
    assert complete("status", "") == []
    assert len(server.requests) == asked


def test_nothing_is_said_of_what_fails(complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("status", "") == []
    assert complete("status", "--context", "") == []
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert complete("status", "") == []
    assert complete("status", "--context", "") == []
    config = tmp_path / "config.yaml"
    config.write_text("gpu: [")
    monkeypatch.setenv("RAYLLM_CONFIG", str(config))
    monkeypatch.setenv("RAYLLM_NONSENSE", "1")
    assert complete("plan", "--gpu", "l40s") == ["L40S"]
    assert complete("nonsense", "--gpu", "") == []


def test_the_process_prints_nothing_else(tmp_path: Path) -> None:
    noisy = tmp_path / "kubeconfig"
    noisy.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], current-context: c, "
        "contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {exec: "
        "{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo noise >&2; exit 1'], "
        "interactiveMode: Never}}}]}"
    )
    environment = {
        **os.environ, "_RAYLLM_CTL_COMPLETE": "bash_complete", "COMP_WORDS": "rayllm-ctl status ", "COMP_CWORD": "2",
        "KUBECONFIG": str(noisy), "RAYLLM_GPUS": "x",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "rayllm_ctl"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
