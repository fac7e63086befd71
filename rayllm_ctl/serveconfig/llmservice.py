"""The models of Ray Serve LLM in a valid Serve configuration, each as a service of one model, which can be planned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import LLMEntry, deployment_options, llm_entries, pattern_of
from rayllm_ctl.model.kube.names import service_name
from rayllm_ctl.model.spec.checks.engine_args import OWN_FIELD, names_a_secret
from rayllm_ctl.model.spec.service import Accelerator, LLMService, Model, Parallelism, Replicas
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.serveconfig.llmrules import REMOTE, hardware
from rayllm_ctl.serveconfig.schema import DEFAULT_APPLICATION
from rayllm_ctl.serveconfig.shapes import as_number
from rayllm_ctl.serveconfig.sizing import replica_bounds

_ENGINE = ("max_model_len", "dtype", "quantization", "kv_cache_dtype", "gpu_memory_utilization", "max_num_seqs",
           "max_num_batched_tokens")  # fmt: skip
_NOT_PLANNED = frozenset({"tensor_parallel_size", "pipeline_parallel_size", "revision", "hf_token"})
"""Engine arguments that are not settings of the engine's memory and speed here."""

_IGNORED = frozenset({"distributed_executor_backend", "data_parallel_size", "disable_log_stats"})
"""What has the only value that Ray Serve LLM takes."""

SCALING = {
    "upscale_delay": "upscale_delay_s",
    "downscale_delay": "downscale_delay_s",
    "look_back_period": "look_back_period_s",
    "downscale_to_zero_delay": "downscale_to_zero_delay_s",
    "metrics_interval": "metrics_interval_s",
    "upscaling_factor": "upscaling_factor",
    "downscaling_factor": "downscaling_factor",
}
"""Fields of spec.replicas, and what they are called in autoscaling_config."""


@dataclass(frozen=True)
class FileModel:
    """A model in a Serve configuration. name: short and unique in the file. at: the path of its configuration.

    options: of its deployment. application: the name of its application. service: what is planned for; its GPU is None
    where neither the file nor the user names one. env: the variables of its runtime environments.
    """

    name: str
    at: Path
    entry: LLMEntry
    application: str
    options: Mapping[str, Any]
    service: LLMService
    env: Mapping[str, str]

    @property
    def ray_type(self) -> str | None:
        """Ray's name of the type of GPU in the file."""
        named = self.entry.config.get("accelerator_type")
        return "A10G" if named == "A10" else None if named is None else str(named)

    @property
    def hardware(self) -> str:
        """cpu, gpu or tpu."""
        return hardware(self.entry.config)

    @property
    def is_of_a_bucket(self) -> bool:
        """Whether its weights are neither on the hub nor in the pods."""
        return source(self.entry).startswith(REMOTE)

    @property
    def engine_token(self) -> Any:
        """What the engine is told of a token for the hub."""
        return (self.entry.config.get("engine_kwargs") or {}).get("hf_token")

    def problem(self, problem: Problem) -> Problem:
        """A problem of the service at its place in the file."""
        return replace(problem, path=(*self.at, *_in_config(problem.path)))


def models(config: Mapping[str, Any], base: LLMService) -> tuple[FileModel, ...]:
    """The models of a valid configuration. base: what was said of pods, image and scheduling."""
    found: list[FileModel] = []
    names: set[str] = set()
    for index, application in enumerate(config["applications"]):
        if pattern_of(application) != "openai":
            continue
        options = deployment_options(application)
        for entry in llm_entries(application):
            name = _unique(service_name(str(entry.model_id)), names)
            own = options.get(str(entry.deployment), {})
            found.append(
                FileModel(
                    name=name,
                    at=("applications", index, *entry.path),
                    entry=entry,
                    application=str(application.get("name", DEFAULT_APPLICATION)),
                    options=own,
                    service=_service(entry, own, base),
                    env={**_env(application), **_env(own.get("ray_actor_options") or {}), **_env(entry.config)},
                )
            )
    return tuple(found)


def _env(owner: Mapping[str, Any]) -> Mapping[str, str]:
    """The variables of the runtime environment of an application, of a deployment or of a model."""
    found: Mapping[str, str] = (owner.get("runtime_env") or {}).get("env_vars") or {}
    return found


def source(entry: LLMEntry) -> str:
    """Where the weights of a model come from: a name of the hub, a path in the pods, or the address of a bucket."""
    loading = entry.config["model_loading_config"]
    given = loading.get("model_source")
    if isinstance(given, Mapping):
        given = given.get("bucket_uri")
    return str(given or loading["model_id"])


def _service(entry: LLMEntry, options: Mapping[str, Any], base: LLMService) -> LLMService:
    arguments: Mapping[str, Any] = entry.config.get("engine_kwargs") or {}
    given = source(entry)
    remote, path = given.startswith(REMOTE), given.startswith("/")
    model = Model(
        id=str(entry.model_id) if remote or path else given,
        path=given if path else None,
        revision=arguments.get("revision"),
        token_secret=base.model.token_secret,
    )
    known = {*_ENGINE, *_NOT_PLANNED, *_IGNORED}
    settings: dict[str, Any] = {name: arguments.get(name) for name in _ENGINE}
    settings["args"] = {
        name: value for name, value in arguments.items() if name not in known and not names_a_secret(name)
    }
    engine = replace(base.engine, **settings)
    return replace(
        base,
        model=model,
        engine=engine,
        accelerator=Accelerator("cpu" if hardware(entry.config) == "cpu" else "gpu"),
        parallelism=Parallelism(
            arguments.get("tensor_parallel_size") or 1, arguments.get("pipeline_parallel_size") or 1
        ),
        replicas=_replicas(options),
    )


def _replicas(options: Mapping[str, Any]) -> Replicas:
    fixed, scaling = options.get("num_replicas"), options.get("autoscaling_config")
    if scaling is None and fixed != "auto":
        low = high = int(fixed or 1)
    else:
        low = int(as_number((scaling or {}).get("min_replicas", 1)) or 0)
        high = replica_bounds(options)[1]
    scaling = scaling or {}
    target = as_number(scaling.get("target_ongoing_requests"))
    initial = as_number(scaling.get("initial_replicas"))
    return Replicas(
        min=low,
        max=high,
        count=None,
        target_ongoing_requests=None if target is None else max(1, math.ceil(target)),
        initial=None if initial is None else int(initial),
        aggregation_function=scaling.get("aggregation_function"),
        **{name: as_number(scaling.get(key)) for name, key in SCALING.items()},
    )


def _in_config(path: Iterable[str | int]) -> Path:
    """Where a field of the spec stands in the configuration of a model."""
    parts = tuple(path)
    text = ".".join(map(str, parts[:3]))
    own = {field: argument for argument, (field, _) in OWN_FIELD.items()}
    if text in own:
        return ("engine_kwargs", own[text])
    if text == "spec.engine.args" and len(parts) > 3:
        return ("engine_kwargs", *parts[3:])
    if parts[:2] == ("spec", "model"):
        return ("model_loading_config", "model_id" if parts[2:3] == ("id",) else "model_source")
    if parts[:2] == ("spec", "replicas"):
        keys = {camel(name): key for name, key in SCALING.items()}
        name = str(parts[2]) if len(parts) > 2 else ""
        others = {"min": "min_replicas", "max": "max_replicas", "initial": "initial_replicas"}
        return ("deployment_config", "autoscaling_config", keys.get(name) or others.get(name) or _snake(name))
    return ()


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _unique(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found


def bundles(model: FileModel) -> list[Mapping[str, float]]:
    """The bundles of the placement group of a replica, as the file has them; empty if it leaves them to Ray."""
    placement = model.entry.config.get("placement_group_config") or {}
    each = placement.get("bundle_per_worker")
    if each is not None:
        shape = model.service.parallelism
        return [_amounts(each)] * ((shape.tensor or 1) * (shape.pipeline or 1))
    return [_amounts(one) for one in placement.get("bundles") or ()]


def _amounts(bundle: Mapping[str, Any]) -> dict[str, float]:
    return {name: amount for name, value in bundle.items() if (amount := as_number(value) or 0.0)}


def placement_problems(model: FileModel, gpus_per_pod: int) -> Iterator[Problem]:
    """Why the bundles of the file do not fit the processes of a replica. gpus_per_pod: as planned."""
    found, shape = bundles(model), model.service.parallelism
    at: Path = (*model.at, "placement_group_config")
    wanted = (shape.tensor or 1) * (shape.pipeline or 1)
    if not found or model.hardware != "gpu":
        return
    amounts = [bundle.get("GPU", 0.0) for bundle in found]
    strategy = (model.entry.config.get("placement_group_config") or {}).get("strategy", "PACK")
    if any(amount != int(amount) for amount in amounts):
        yield Problem(at, "shares of a GPU cannot be planned", "GPU: 1")
    elif sum(amounts) != wanted:
        yield Problem(at, f"reserves {sum(amounts):g} GPUs for TP {shape.tensor} × PP {shape.pipeline} = {wanted}")
    elif strategy == "STRICT_PACK" and wanted > gpus_per_pod:
        yield Problem(
            at, f"STRICT_PACK wants {wanted} GPUs of one node, and a pod has {gpus_per_pod}", "strategy: PACK"
        )
    elif strategy in ("SPREAD", "STRICT_SPREAD") and len(found) > 1 and max(amounts) < gpus_per_pod:
        yield Problem(
            at, f"{strategy} puts the processes of a TP group on different nodes",
            "strategy: PACK, or STRICT_PACK where a node holds a replica",
        )  # fmt: skip
