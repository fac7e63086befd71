"""Predicted figures of a plan next to the measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.catalog import gpus
from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.bench.service import steady_replicas
from rayllm_ctl.model.spec.checks.engine_args import SERVER_ARGUMENTS
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Load, Model, Parallelism
from rayllm_ctl.planner.request import Shape, Workload
from rayllm_ctl.planner.speed.predict import predict
from rayllm_ctl.workflows.bench.watch import LookAt
from rayllm_ctl.workflows.plan.model import gpu_request

if TYPE_CHECKING:
    from rayllm_ctl.cluster.ray.model import LiveModel
    from rayllm_ctl.model.plan.hardware import GPU
    from rayllm_ctl.planner.request import Request, Shape
    from rayllm_ctl.planner.speed.predict import Prediction

_FIELDS = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "dtype", "quantization",
    "kv_cache_dtype",
)  # fmt: skip
"""Engine arguments with a field in the spec."""


SERVED = ("vllm", "ray")
"""The components with versions."""


@dataclass(frozen=True)
class Seen:
    """Facts about a service besides its answers. look: reads its state; None if there is no state to read.
    planned: as the planner is asked about it, or why it cannot be. versions: of vLLM and Ray, None if that is not
    known."""

    look: LookAt | None
    planned: LLMService | str
    versions: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys(SERVED))


def planned_of(live: LiveModel | None) -> LLMService | str:
    """The model of a service, as the planner is asked about it; or why it cannot be, in a few words."""
    if live is None:
        return "the service's objects do not describe how the model is served"
    if not live.on_gpus:
        return "the planner does not predict the speed of CPUs"
    if live.vllm_version is None:
        return "the version of vLLM is unknown"
    gpu = _gpu(live)
    if gpu is None:
        return "the GPU type is unknown"
    engine = dict(live.engine)
    tensor, pipeline = (int(engine.pop(f"{kind}_parallel_size", 1)) for kind in ("tensor", "pipeline"))
    revision = engine.pop("revision", None)
    fields = {name: engine.pop(name) for name in _FIELDS if name in engine}
    for name in SERVER_ARGUMENTS:
        engine.pop(name, None)
    return LLMService(
        name="service",
        model=Model(live.id, revision),
        engine=Engine(vllm_version=live.vllm_version, args=engine, **fields),
        accelerator=Accelerator(gpu=gpu.name),
        parallelism=Parallelism(tensor, pipeline, across_nodes=True),
    )


def _gpu(live: LiveModel) -> GPU | None:
    """The only kind of GPU whose nodes have the labels that the pods ask for."""
    known = [gpu for gpu in gpus.load_gpus().values() if live.accelerator_type in (None, gpu.ray_accelerator_type)]
    # The labels of one type may be a subset of those of another.
    whole = [gpu for gpu in known if gpu.node_labels and _labels(gpu) <= live.gpu_nodes]
    most = max((len(_labels(gpu)) for gpu in whole), default=0)
    fitting = [gpu for gpu in whole if len(_labels(gpu)) == most]
    fitting = fitting or [gpu for gpu in known if _labels(gpu) & live.gpu_nodes] or known
    return fitting[0] if len(fitting) == 1 else None


def identity(service: LLMService) -> dict[str, Any]:
    """The key of the service's calibration."""
    engine = service.engine
    figures = {
        "model": service.model.id,
        "gpu": service.accelerator.gpu,
        "tensor": service.parallelism.tensor,
        "pipeline": service.parallelism.pipeline,
        "vllmVersion": engine.vllm_version,
    }
    named = {"quantization": engine.quantization, "kvCacheDtype": engine.kv_cache_dtype}
    return figures | {key: value for key, value in named.items() if value}


def predicted(planned: LLMService, result: Mapping[str, Any]) -> dict[str, Any] | str:
    """The `predicted` of a result: each figure as planned and measured, and their ratio; or why there is none."""
    service, succeeded = result["service"], result["requests"]["succeeded"]
    if not succeeded:
        return "no request was answered"
    if result["tokens"]["countedBy"] in (None, "none"):
        return "the tokens were not counted"
    replicas = steady_replicas(service)
    if not replicas:
        return "the number of replicas is unknown, or changed"
    lengths = [max(1, round(result["tokens"][name] / succeeded)) for name in ("input", "output")]
    try:
        prediction = _predict(planned, result["load"], lengths, replicas)
    except UserError as error:
        return error.message
    if isinstance(prediction, str):
        return prediction
    latency, rate = result["latencySeconds"], result["throughput"]
    measured = {name: (latency[name] or {}).get("mean") for name in ("ttft", "tpot")}
    return {
        "plan": {**identity(planned), "replicas": replicas, "inputTokens": lengths[0], "outputTokens": lengths[1]},
        "requestsPerSecond": _compared(prediction.requests_per_second, rate["requestsPerSecond"]),
        "outputTokensPerSecond": _compared(prediction.output_tokens_per_second, rate["outputTokensPerSecond"]),
        "ttftSeconds": _compared(prediction.ttft, measured["ttft"]),
        "tpotSeconds": _compared(prediction.tpot, measured["tpot"]),
    }


def with_predictions(
    planned: LLMService | str, results: Sequence[Mapping[str, Any]], memory: Mapping[str, float] | None = None
) -> tuple[Mapping[str, Any], ...]:
    """`results` with `predicted`, or null and `notPredicted`, which says why. planned: the service, or why there is no
    plan of it. memory: the KV cache as planned and as vLLM's start-up plans measured it."""
    predictions = []
    for result in results:
        prediction = planned if isinstance(planned, str) else predicted(planned, result)
        why = {"notPredicted": prediction} if isinstance(prediction, str) else {}
        if memory is not None and not isinstance(prediction, str):
            prediction["kvCacheBytes"] = dict(memory)
        predictions.append({**result, "predicted": None if why else prediction, **why})
    return tuple(predictions)


def _predict(service: LLMService, load: Mapping[str, Any], lengths: list[int], replicas: int) -> Prediction | str:
    service = replace(service, load=Load(input_tokens=lengths[0], output_tokens=lengths[1]))
    assert service.engine.vllm_version is not None
    request = gpu_request(service, engine(service.engine.vllm_version), OFFLINE, hand_sized=True)
    workload = Workload(lengths[0], lengths[1], load.get("concurrency"), load.get("rate"), None, None, stated=True)
    return predict(request, _shape(request), workload, replicas)


def _shape(request: Request) -> Shape:
    parallelism = request.service.parallelism
    assert parallelism.tensor is not None
    assert parallelism.pipeline is not None
    online = request.service.engine.quantization if request.facts.quantization is None else None
    return Shape(request.gpus[0], parallelism.tensor, parallelism.pipeline, online, request.data)


def _compared(planned: float, measured: float | None) -> dict[str, float] | None:
    if measured is None:
        return None
    return {"predicted": planned, "measured": measured, "ratio": measured / planned}


def _labels(gpu: GPU) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, values in gpu.node_labels.items() for value in values)
