"""What deployments an application of a Serve config has: names, replicas and resources, by the rules of Ray Serve LLM.

The rules are those of Ray 2.60 (LLMServer.get_deployment_options, VLLMEngineConfig.placement_bundles, the defaults of
its accelerators), so that a simulated replica needs exactly what a real one would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

INGRESS: Final = "OpenAiIngress"
ONE_MODEL: Final = "rayllm_ctl.serving.model:build"
"""The builder of an application of one model, which is the root of its application and so, to Serve, its ingress."""

_TINY_SHARE: Final = 0.001  # Of the resource that names the kind of GPU: enough to bind a bundle to such nodes.


@dataclass(frozen=True)
class DeploymentSpec:
    """One deployment as wanted. `bundles` is a replica's placement group, or the one set of its actor's resources."""

    name: str
    replicas: int
    bundles: tuple[Mapping[str, float], ...]
    strategy: str
    grouped: bool
    config: Mapping[str, Any]
    ingress: bool
    model_id: str | None = None

    @property
    def actor_resources(self) -> Mapping[str, float]:
        """What Serve calls `required_resources`: the actor's own, without its placement group."""
        options = self.config.get("ray_actor_options") or {}
        return {"CPU": options.get("num_cpus", 1)}


def deployments(application: Mapping[str, Any]) -> Sequence[DeploymentSpec]:
    """The deployments of an application of a Serve config, the ingress last."""
    arguments = application.get("args") or {}
    # What the config says of a deployment by name overrides what the application's code says.
    overrides = {one["name"]: one for one in application.get("deployments") or []}
    if application.get("import_path") == ONE_MODEL:
        return [replace(_server(arguments, overrides), ingress=True)]
    models = [one for one in arguments.get("llm_configs") or [] if isinstance(one, Mapping)]
    if models:
        servers = [_server(model, overrides) for model in models]
        ingress = {**(arguments.get("ingress_deployment_config") or {}), **overrides.get(INGRESS, {})}
        return [*servers, _ingress(ingress, servers)]
    named = application.get("deployments") or [{"name": application.get("name", "default")}]
    return [_plain(one, ingress=position == len(named) - 1) for position, one in enumerate(named)]


def deployment_name(model_id: str) -> str:
    """The name of a model's deployment: Serve's names have neither slashes nor dots."""
    return "LLMServer:" + model_id.replace("/", "--").replace(".", "_")


def initial_replicas(config: Mapping[str, Any], default: int = 1) -> int:
    """The replicas that a deployment starts with. Nothing scales them afterwards here."""
    scaling = config.get("autoscaling_config")
    if isinstance(scaling, Mapping):
        initial = scaling.get("initial_replicas")
        return int(scaling.get("min_replicas", 1) if initial is None else initial)
    fixed = config.get("num_replicas")
    return int(fixed) if isinstance(fixed, int) else default


def _server(model: Mapping[str, Any], overrides: Mapping[str, Mapping[str, Any]]) -> DeploymentSpec:
    model_id = str(model["model_loading_config"]["model_id"])
    config = {**(model.get("deployment_config") or {}), **overrides.get(deployment_name(model_id), {})}
    options = config.get("ray_actor_options") or {}
    actor = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0), **(options.get("resources") or {})}
    bundles = [dict(bundle) for bundle in _worker_bundles(model)]
    # The replica's actor lives in the first bundle.
    bundles[0] = {name: bundles[0].get(name, 0) + actor.get(name, 0) for name in {**bundles[0], **actor}}
    return DeploymentSpec(
        name=deployment_name(model_id),
        replicas=initial_replicas(config),
        bundles=tuple({name: float(amount) for name, amount in bundle.items()} for bundle in bundles),
        strategy=(model.get("placement_group_config") or {}).get("strategy", "PACK"),
        grouped=True,
        config=config,
        ingress=False,
        model_id=model_id,
    )


def _worker_bundles(model: Mapping[str, Any]) -> Sequence[Mapping[str, float]]:
    arguments = model.get("engine_kwargs") or {}
    workers = int(arguments.get("tensor_parallel_size", 1)) * int(arguments.get("pipeline_parallel_size", 1))
    group = model.get("placement_group_config") or {}
    kind = model.get("accelerator_type")
    share = {f"accelerator_type:{kind}": _TINY_SHARE} if kind else {}
    if "bundle_per_worker" in group:
        return [{**share, **group["bundle_per_worker"]}] * workers
    if group.get("bundles"):
        return [{**share, **bundle} for bundle in group["bundles"]]
    if (model.get("accelerator_config") or {}).get("kind") == "cpu":
        return [{"CPU": 1}] * workers
    return [{"GPU": 1, **share}] * workers


def _ingress(config: Mapping[str, Any], servers: Sequence[DeploymentSpec]) -> DeploymentSpec:
    # With every model at zero the ingress starts at zero too.
    default = 1 if any(server.replicas for server in servers) else 0
    return _with_actor(INGRESS, config, initial_replicas(config, default), ingress=True)


def _plain(config: Mapping[str, Any], *, ingress: bool) -> DeploymentSpec:
    return _with_actor(str(config["name"]), config, initial_replicas(config), ingress=ingress)


def _with_actor(name: str, config: Mapping[str, Any], replicas: int, *, ingress: bool) -> DeploymentSpec:
    options = config.get("ray_actor_options") or {}
    needs = {"CPU": float(options.get("num_cpus", 1)), "GPU": float(options.get("num_gpus", 0))}
    needs |= {resource: float(amount) for resource, amount in (options.get("resources") or {}).items()}
    bundle = {name_: amount for name_, amount in needs.items() if amount}
    return DeploymentSpec(name, replicas, (bundle,), "PACK", grouped=False, config=config, ingress=ingress)
