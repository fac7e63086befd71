"""`bench offline`: vLLM's own benchmarks in a Job, with what they print as vLLM 0.29 writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from rayllm_ctl import __version__
from rayllm_ctl.catalog.releases import DEFAULT
from tests.cli.conftest import Run
from tests.cluster.fakeapi import Answer, FakeAPI, Request

MODEL = ("--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--tp", "2", "--offline", "-n", "llm")
THROUGHPUT = {"elapsed_time": 4.0, "num_requests": 200, "total_num_tokens": 76800, "requests_per_second": 50.0}
LATENCY = {"avg_latency": 0.5, "latencies": [0.5], "percentiles": {"10": 0.4, "50": 0.5, "90": 0.6, "99": 0.7}}

Measured = Callable[[str], list[dict[str, object]]]


def said(kind: str, data: object) -> str:
    return f"\rProcessed prompts: 100%\nrayllm-bench {json.dumps({kind: data})}\n"


@pytest.fixture
def measured(api: FakeAPI) -> Measured:
    """Lets a pod with such a log run as soon as there is a Job; returns the Jobs that were created."""
    jobs: list[dict[str, object]] = []

    def prepare(log: str) -> list[dict[str, object]]:
        def created(request: Request) -> Answer | None:
            jobs.append(job := request.json())
            name = job["metadata"]["name"]
            metadata = {"name": f"{name}-x", "labels": {"job-name": name}}
            api.put(kind="Pod", metadata=metadata, spec={"containers": []}, status={"phase": "Running"})
            return None

        api.answer("POST", "/jobs$", created)
        api.answer("GET", "/log$", (200, log.encode()))
        return jobs

    return prepare


def test_the_figures_are_those_of_vllm_and_the_job_is_deleted(run: Run, api: FakeAPI, measured: Measured) -> None:
    jobs = measured("INFO loading\n" + said("throughput", THROUGHPUT) + said("latency", LATENCY))
    result = run("bench", "offline", *MODEL, "-o", "json")
    assert result.code == 0, str(result)
    found = json.loads(result.out)
    assert found["throughput"]["requestsPerSecond"] == 50.0
    assert found["throughput"]["outputTokensPerSecond"] == 50.0 * 128
    assert found["batchLatencySeconds"] == {"mean": 0.5, "p50": 0.5, "p90": 0.6, "p99": 0.7}
    assert (found["gpus"], found["durationSeconds"]) == ("2 x H100-80GB", 4.0)
    assert found["versions"] == {"rayllm-ctl": __version__, "vllm": DEFAULT.vllm}
    assert datetime.fromisoformat(found["startedAt"]) <= datetime.now(UTC)
    assert found["load"].items() >= {"inputTokens": 256, "outputTokens": 128, "repeats": 10, "warmup": 2}.items()
    assert any(one.method == "DELETE" and "/jobs/qwen3-8b-offline-" in one.path for one in api.requests)
    (job,) = jobs
    pod = job["spec"]["template"]  # type: ignore[index]
    (box,) = pod["spec"]["containers"]
    assert box["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert {"--model=Qwen/Qwen3-8B", "--tensor-parallel-size=2", "--dtype=bfloat16"} < set(box["args"])
    assert not [arg for arg in box["args"] if arg.startswith(("--port", "--served", "--shutdown", "--distributed"))]
    assert "rayllm.io/service" not in pod["metadata"]["labels"]  # a Service of vLLM's own server would take the pod
    assert {"mountPath": "/dev/shm", "name": "shared-memory"} in box["volumeMounts"]


def test_a_latency_that_is_missing_is_said(run: Run, measured: Measured) -> None:
    measured(said("throughput", THROUGHPUT) + "ValueError: Token id 9999 is out of vocabulary\nINFO shutting down\n")
    result = run("bench", "offline", *MODEL)
    assert result.code == 1
    assert "50 requests/s, 6,400 output tokens/s (200 requests in 4.00 s)" in result.out.replace("50.0", "50")
    assert "✗ the latency was not measured: ValueError: Token id 9999 is out of vocabulary" in result.out


FAILING = """\
(EngineCore pid=8) INFO 03-01 12:00:00 [core.py:1] Initializing a V1 LLM engine
(EngineCore pid=8) ERROR 03-01 12:00:01 [core.py:9] Traceback (most recent call last):
(EngineCore pid=8) ERROR 03-01 12:00:01 [core.py:9]   File "/site/vllm/v1/core/kv_cache_utils.py", line 879, in check
(EngineCore pid=8) ERROR 03-01 12:00:01 [core.py:9] ValueError: To serve at least one request with the model's max seq \
len (40960), (5.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.00 GiB). Based on the \
available memory, the estimated maximum model length is 8192. Try increasing `gpu_memory_utilization`
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
(EngineCore pid=8) INFO 03-01 12:00:02 [multiproc_executor.py:472] [shutdown] Executor: waiting for worker exit count=1
"""
"""The end of the log of an engine that fails, as recorded with vLLM 0.29."""

INVALID = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=1)   Value error, The checkpoint you are trying to load has model type `new` but Transformers does not \
recognize this architecture. [type=value_error, input_value=ArgsKwargs((), {'model': 'org/m'}), input_type=ArgsKwargs]
(APIServer pid=1)     For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""


def test_an_engine_that_fails_is_an_error_with_the_root_of_its_exceptions(
    run: Run, api: FakeAPI, measured: Measured
) -> None:
    measured(FAILING)
    result = run("bench", "offline", *MODEL)
    assert result.code == 1
    assert "ended without a result: ValueError: To serve at least one request" in result.err
    assert "rayllm-ctl bench offline … --max-model-len 8192" in result.err
    assert "waiting for worker exit" not in result.err
    assert any(one.method == "DELETE" for one in api.requests)


def test_a_setting_that_is_invalid_is_named_and_not_counted(run: Run, measured: Measured) -> None:
    measured(INVALID)
    result = run("bench", "offline", *MODEL)
    assert (
        "ended without a result: ModelConfig: The checkpoint you are trying to load has model type `new`" in result.err
    )
    assert "input_value" not in result.err
    assert "--image IMAGE" in result.err


def test_a_log_without_an_exception_is_an_error_with_its_last_lines(run: Run, measured: Measured) -> None:
    measured("INFO loading\nKilled\n")
    assert "ended without a result: INFO loading Killed" in run("bench", "offline", *MODEL).err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--pp", "6"), "a replica consists of 6 pods, and vLLM's benchmarks run in one"),
        (("--max-model-len", "300"), "256 tokens of a prompt and 128 of an answer exceed the maximum length of 300"),
    ],
)
def test_what_cannot_be_measured_is_rejected_before_a_job_is_created(
    run: Run, api: FakeAPI, flags: tuple[str, ...], message: str
) -> None:
    result = run("bench", "offline", *MODEL, *flags)
    assert result.code == 2
    assert message in result.err
    assert not [one for one in api.requests if one.method == "POST"]
