"""What the plan says of a load that was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.cluster.ray.model import LiveModel, live_model
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Parallelism
from rayllm_ctl.workflows.bench.predict import planned_of, predicted
from rayllm_ctl.workflows.plan.model import make_plan

MODEL = "Qwen/Qwen3-8B"
SERVICE = LLMService(
    "chat",
    Model(MODEL),
    engine=Engine(vllm_version="0.29.0", max_model_len=8192, args={"enable_prefix_caching": False}),
    accelerator=Accelerator(gpu="H100-80GB"),
    parallelism=Parallelism(2, 1),
)


def measured(load: dict[str, Any], replicas: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "load": load,
        "requests": {"succeeded": 100},
        "tokens": {"input": 51_200, "output": 12_800, "countedBy": "usage"},
        "throughput": {"requestsPerSecond": 5.0, "outputTokensPerSecond": 640.0},
        "latencySeconds": {"ttft": {"mean": 0.1}, "tpot": None},
        "service": {"samples": [{"replicas": replicas}, {"replicas": None}]},
        **changed,
    }


def figures(load: dict[str, Any], replicas: int = 1) -> dict[str, float]:
    found = predicted(SERVICE, measured(load, replicas))
    assert isinstance(found, dict), found
    assert found["tpotSeconds"] is None
    return {name: found[name]["predicted"] for name in ("requestsPerSecond", "outputTokensPerSecond", "ttftSeconds")}


def test_a_closed_loop_is_that_of_the_plan() -> None:
    wanted = replace(SERVICE, load=replace(SERVICE.load, concurrency=16, input_tokens=512, output_tokens=128))
    plan = make_plan(wanted, OFFLINE, hand_sized=True)
    assert plan.throughput is not None
    planned = plan.throughput.at_load
    found = figures({"concurrency": 16})
    assert found["requestsPerSecond"] == pytest.approx(planned.requests_per_second.typical)
    assert found["ttftSeconds"] == pytest.approx(planned.ttft.typical)
    # The same load for each of two replicas.
    twice = figures({"concurrency": 32}, replicas=2)
    assert twice["requestsPerSecond"] == pytest.approx(2 * found["requestsPerSecond"])
    assert twice["ttftSeconds"] == pytest.approx(found["ttftSeconds"])
    # One of two has nothing to do.
    assert figures({"concurrency": 1}, replicas=2) == figures({"concurrency": 1})


def test_what_the_kv_cache_does_not_hold_waits() -> None:
    most, more = figures({"concurrency": 20_000}), figures({"concurrency": 40_000})
    assert most["requestsPerSecond"] == more["requestsPerSecond"]
    assert more["ttftSeconds"] - most["ttftSeconds"] == pytest.approx(20_000 / more["requestsPerSecond"])


def test_an_open_loop_has_its_rate_as_long_as_it_can_be_answered() -> None:
    few, many = figures({"rate": 0.01}), figures({"rate": 20.0})
    assert (few["requestsPerSecond"], many["requestsPerSecond"]) == (0.01, 20.0)
    assert few["ttftSeconds"] == pytest.approx(figures({"concurrency": 1})["ttftSeconds"])
    assert many["ttftSeconds"] > few["ttftSeconds"]
    refused = predicted(SERVICE, measured({"rate": 1e6}))
    assert isinstance(refused, str)
    assert "requests/s at most" in refused


CHANGED = "the number of replicas is unknown, or changed"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"requests": {"succeeded": 0}}, "no request was answered"),
        ({"tokens": {"input": 0, "output": 0, "countedBy": "none"}}, "the tokens were not counted"),
        ({"service": None}, CHANGED),
        ({"service": {"samples": [{"replicas": 1}, {"replicas": 2}]}}, CHANGED),
    ],
)  # fmt: skip
def test_results_without_a_prediction(changed: dict[str, Any], says: str) -> None:
    assert predicted(SERVICE, measured({"concurrency": 4}, **changed)) == says


def test_models_without_a_prediction() -> None:
    unknown = replace(SERVICE, model=Model("nobody/knows"))
    assert "nobody/knows is not in the catalog" in str(predicted(unknown, measured({"concurrency": 4})))
    large = replace(SERVICE, model=Model("meta-llama/Llama-3.1-405B-Instruct"))
    assert predicted(large, measured({"concurrency": 4})) == "the plan says that it does not fit"


@pytest.mark.parametrize("mode", ["rayservice", "raycluster"])
@pytest.mark.parametrize("gpu", ["H100-80GB", "L4", "MI300X"])
def test_a_live_service_is_read_back(mode: Any, gpu: str) -> None:
    from rayllm_ctl.workflows.render.manifests import manifests

    image = "registry/image:1" if gpu == "MI300X" else None
    service = replace(SERVICE, mode=mode, accelerator=Accelerator(gpu=gpu), parallelism=Parallelism(1, 1))
    service = replace(service, engine=replace(service.engine, image=image, ray_version="2.60.0", kv_cache_dtype="fp8"))
    item = manifests(make_plan(service, OFFLINE), accept_risk=True)[0]
    found = planned_of(live_model(item, MODEL))
    assert isinstance(found, LLMService), found
    assert (found.accelerator.gpu, found.parallelism.tensor, found.model.id) == (gpu, 1, MODEL)
    assert (found.engine.max_model_len, found.engine.kv_cache_dtype) == (8192, "fp8")
    assert found.engine.vllm_version == "0.29.0"
    assert found.engine.args == {"enable_prefix_caching": False}


def test_what_a_service_does_not_say() -> None:
    live = LiveModel(MODEL, {}, "0.29.0", on_gpus=True, gpu_nodes=frozenset(), accelerator_type="H100")
    assert planned_of(None) == "the service's objects do not describe how the model is served"
    assert planned_of(replace(live, vllm_version=None)) == "the version of vLLM is unknown"
    assert planned_of(replace(live, on_gpus=False)) == "the planner does not predict the speed of CPUs"
    assert planned_of(live) == "the GPU type is unknown"
    named = replace(live, gpu_nodes=frozenset({("nvidia.com/gpu.product", "NVIDIA-H100-NVL")}))
    found = planned_of(named)
    assert isinstance(found, LLMService), found
    assert found.accelerator.gpu == "H100-NVL-94GB"
