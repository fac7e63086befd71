"""`bench --calibrate` and `--calibration`, and what a result says of the service, against a fake cluster."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.loadtest.settings import Settings
from rayllm_ctl.workflows.bench import service as bench_service
from rayllm_ctl.workflows.bench.calibrate import write_calibrations
from rayllm_ctl.workflows.bench.watch import LoadWatch
from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
PLAN = ("--model", MODEL, "--gpu", "H100-80GB", "--tp", "4", "--offline")
DEPLOY = (*PLAN, "--name", "chat", "-n", "llm")
LOAD = ("bench", "chat", "-n", "llm", "--concurrency", "5", "--requests", "60")
DEPLOYMENT = "LLMServer:meta-llama--Llama-3_1-70B-Instruct"
PODS = "chat-bcdfg-worker:8080/proxy/metrics$"
METRICS = (
    b'ray_vllm_num_requests_running{ReplicaId="r1"} 5.0\nray_vllm_num_requests_waiting{ReplicaId="r1"} 1.0\n'
    b'ray_vllm_kv_cache_usage_perc{ReplicaId="r1"} 0.25\n'
)


def result(**changed: Any) -> dict[str, Any]:
    """What the generator says of 60 requests."""
    times = {"mean": 0.02, "p50": 0.02, "p90": 0.02, "p95": 0.02, "p99": 0.02, "max": 0.02}
    return {
        "startedAt": "2026-11-21T09:00:00Z",
        "prompts": {"input": {"kind": "fixed", "low": 256}, "output": None, "prefix": 0, "prefixes": 1, "seed": 0},
        "request": {"api": "chat", "stream": True, "fields": {}},
        "load": {
            "concurrency": 5,
            "arrivals": "poisson",
            "burst": 1,
            "rampSeconds": 0.0,
            "warmup": 0,
            "timeoutSeconds": 600.0,
        },
        "requests": {"total": 60, "succeeded": 60, "failed": 0, "unfinished": 0},
        "durationSeconds": 30.0,
        "throughput": {"requestsPerSecond": 2.0, "inputTokensPerSecond": 512.0, "outputTokensPerSecond": 256.0},
        "tokens": {"input": 60 * 256, "output": 60 * 128, "countedBy": "usage"},
        "latencySeconds": {"ttft": {**times, "mean": 0.5}, "tpot": times, "itl": times, "e2e": times},
        "histogram": [],
        "timeline": [{"succeeded": 2, "failed": 0, "outputTokens": 256}] * 30,
        "samples": {"begin": [], "ttft": [], "tpot": [], "e2e": [], "outputTokens": [], "itl": []},
        "errors": {},
        "errorMessages": {},
        "generator": {"cpuShare": 0.1, "lateSeconds": None, "saturated": False},
        "interrupted": False,
        **changed,
    }


@pytest.fixture
def service(api: FakeAPI, deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A service under the load of a Job that has ended once the service was looked at; changes of its result."""
    deploy(*DEPLOY)
    replica = {"replica_id": "r1", "state": "RUNNING", "node_instance_id": "chat-bcdfg-worker", "start_time_s": 1}
    deployment = {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [replica]}
    running = {"status": "RUNNING", "deployments": {DEPLOYMENT: deployment, "OpenAiIngress": deployment}}
    api.answer("GET", "head-svc:dashboard/proxy/api/serve/applications/$", (200, {"applications": {"chat": running}}))
    api.answer("GET", "chat-serve-svc:serve/proxy/v1/models$", (200, {"data": [{"id": MODEL}]}))
    api.answer("GET", PODS, (200, METRICS))
    changed: dict[str, Any] = {}
    looks = [0]

    def measure_there(_: Any, settings: Settings, key: Any, watch: LoadWatch) -> list[Mapping[str, Any]]:
        limit = time.monotonic() + 5
        while api.count("GET", PODS) == looks[0] and time.monotonic() < limit:
            time.sleep(0.002)
        looks[0] = api.count("GET", PODS)
        counts = {"load": 0, "done": 1, "failed": 0, "running": 1}
        watch.report({**counts, "seconds": 0.0, "elapsed": 0.0, "ended": False})
        return [result(**changed)]

    monkeypatch.setattr(bench_service, "measure_there", measure_there)
    return changed


def test_the_service_and_its_plan_stand_beside_what_was_measured(run: Run, service: dict[str, Any]) -> None:
    assert not service
    [found] = json.loads(run(*LOAD, "-o", "json").out)["runs"]
    assert found["service"]["samples"] == [
        {"atSeconds": 0.0, "replicas": 1, "wanted": 1, "running": 5, "waiting": 1, "kvCacheUsage": 0.25,
         "preemptions": 0, "queued": None}
    ]  # fmt: skip
    predicted = found["predicted"]
    assert predicted["plan"] == {
        "model": MODEL, "gpu": "H100-80GB", "tensor": 4, "pipeline": 1, "vllmVersion": "0.29.0", "replicas": 1,
        "inputTokens": 256, "outputTokens": 128,
    }  # fmt: skip
    for name, measured in (
        ("requestsPerSecond", 2.0),
        ("outputTokensPerSecond", 256.0),
        ("ttftSeconds", 0.5),
        ("tpotSeconds", 0.02),
    ):
        assert predicted[name]["measured"] == measured
        assert predicted[name]["ratio"] == pytest.approx(measured / predicted[name]["predicted"])
    # 33 GiB of weights per GPU take 13 ms a step.
    assert 0.012 < predicted["tpotSeconds"]["predicted"] < 0.025
    text = run(*LOAD).out
    assert "  service    1 replica\n" in text
    shown = " ".join(text.split())
    assert "running at most 5, waiting 1, KV cache 25%, 0 preemptions" in shown
    assert (
        f"TTFT {predicted['ttftSeconds']['predicted'] * 1e3:.3g} ms (measured ×{predicted['ttftSeconds']['ratio']:.2f})"
        in shown
    )


def test_metrics_that_cannot_be_read_are_said_once_and_end_nothing(
    run: Run, api: FakeAPI, service: dict[str, Any]
) -> None:
    assert not service
    api.answer("GET", PODS, (502, b"no route"))
    shown = run(*LOAD)
    assert shown.code == 0, str(shown)
    assert shown.out.count("vLLM's metrics could not be read") == 1
    assert "1 replica\n" in shown.out
    assert "running at most" not in shown.out


def test_a_calibration_is_stored_and_used(run: Run, service: dict[str, Any], tmp_path: Path) -> None:
    assert not service
    file = tmp_path / "calibration.yaml"
    stored = run(*LOAD, "--calibrate", str(file))
    assert stored.code == 0, str(stored)
    assert f"calibration.yaml: {MODEL} on 4 × H100-80GB (TP 4), vLLM 0.29.0" in stored.err
    load = ("--input-tokens", "256", "--output-tokens", "128", "--concurrency", "5", "-o", "json")
    plain = json.loads(run("plan", *PLAN, *load).out)["throughput"]
    assert "calibration" not in plain
    found = json.loads(run("plan", *PLAN, *load, "--calibration", str(file)).out)["throughput"]
    assert found["calibration"]["inFlight"] == 5
    assert found["calibration"]["ttft"] == pytest.approx(0.5 / plain["atLoad"]["ttftSeconds"]["typical"], rel=1e-3)
    # At the load that was measured, the plan is what was measured.
    assert found["atLoad"]["ttftSeconds"]["typical"] == pytest.approx(0.5, rel=1e-3)
    assert found["atLoad"]["tpotSeconds"]["typical"] == pytest.approx(0.02, rel=1e-3)
    assert found["atLoad"]["requestsPerSecond"]["typical"] == pytest.approx(2.0, rel=1e-3)
    text = run("plan", *PLAN, "--calibration", str(file)).out
    ratio = found["calibration"]["throughput"]
    assert f"measured ×{ratio:.2f} tokens/s" in text
    assert "5 in flight" in text
    other = run("plan", *PLAN[:-2], "8", "--offline", "--calibration", str(file)).out
    assert "measured ×" not in other
    flat = " ".join(other.split())
    assert f"{MODEL} on 8 × H100-80GB (TP 8), vLLM 0.29.0 was not measured: the calibration is for" in flat
    assert run("render", *PLAN, "--calibration", str(file)).code == 0
    missing = run("deploy", *DEPLOY, "--calibration", str(tmp_path / "none"))
    assert missing.code == 2
    assert f"the calibration file {tmp_path / 'none'} cannot be read: no such file" in missing.err
    on_cpu = run("plan", "--model", "tiny", "--model-path", "/m", "--accelerator", "cpu", "--calibration", str(file))
    assert "the load is ignored: speed on CPUs is not planned" in on_cpu.out


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"requests": {"total": 61, "succeeded": 60, "failed": 1, "unfinished": 0}}, "1 request failed"),
        ({"generator": {"cpuShare": 1.0, "lateSeconds": None, "saturated": True}}, "the generator was saturated"),
        ({"requests": {"total": 9, "succeeded": 9, "failed": 0, "unfinished": 0}}, "9 requests are too few for 5 in"),
        ({"tokens": {"input": 0, "output": 0, "countedBy": "none"}}, "there is no prediction: the tokens were not"),
        ({"interrupted": True}, "the load test was interrupted"),
    ],
)
def test_what_proves_nothing_is_not_stored(
    run: Run, service: dict[str, Any], tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    service.update(changed)
    refused = run(*LOAD, "--calibrate", str(tmp_path / "c.yaml"))
    assert refused.code != 0
    assert "answered" in refused.out
    assert "nothing was stored" in refused.err
    assert says in refused.err
    assert not list(tmp_path.glob("*c.yaml*"))


def test_a_calibration_goes_to_the_file_behind_a_link(run: Run, service: dict[str, Any], tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "c.yaml"
    link.symlink_to(real.name)
    assert run(*LOAD, "--calibrate", str(link)).code == 0
    real.chmod(0o640)
    first = real.read_text()
    assert run(*LOAD, "--calibrate", str(link)).code == 0
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, first, 0o640)


def test_a_calibration_replaces_nothing_but_a_file(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = run("bench", "chat", "--calibrate", str(pipe))
    assert (refused.code, f"{pipe}: is a named pipe, not a file" in refused.err) == (2, True)
    with pytest.raises(UsageError, match="is a named pipe"):
        write_calibrations(pipe, ())
    assert pipe.is_fifo()


URL = ("bench", "--url", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (URL, "--calibrate is for NAME"),
        (("bench", "chat", "--rate", "4"), "--calibrate takes one load"),
        (("bench", "chat", "--concurrency", "1,4"), "--calibrate takes one load"),
        (("bench", "chat", "--prefix-tokens", "9"), "cannot be combined"),
        (("bench", "chat", "--no-stream"), "TTFT is not measured"),
    ],
)
def test_loads_that_calibrate_nothing(run: Run, tmp_path: Path, command: tuple[str, ...], says: str) -> None:
    refused = run(*command, "--calibrate", str(tmp_path / "c.yaml"))
    assert refused.code == 2, str(refused)
    assert says in refused.err


def test_a_server_on_cpus_has_no_prediction(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy("--model", "tiny", "--model-path", "/m", "--accelerator", "cpu", "--image", "x.io/i:1", "-n", "llm")
    from rayllm_ctl.cluster.ray.model import live_model
    from rayllm_ctl.workflows.bench.predict import planned_of

    live = live_model(api.stored("RayService", "tiny"), "tiny")
    assert live is not None
    assert live.vllm_version == "0.29.0"
    assert planned_of(live) == "the planner does not predict the speed of CPUs"
    assert live_model(api.stored("RayService", "tiny"), "other") is None
