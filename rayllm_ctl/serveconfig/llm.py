"""What Ray Serve LLM accepts as the arguments of its builders, stated as rules for one version.

The fields are data of the catalog, read from Ray's wheels. What holds between them was read in Ray 2.60.0:
ray/llm/_internal/serve/core/configs/llm_config.py, core/ingress/builder.py, core/server/llm_server.py,
engines/vllm/vllm_models.py and ray/llm/_internal/common (placement.py, utils/cloud_utils.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rayllm_ctl.model.kube.llm_applications import (
    Pattern,
    deployment_options,
    is_of_ray_serve_llm,
    llm_entries,
    pattern_of,
)
from rayllm_ctl.model.kube.names import did_you_mean, nearest
from rayllm_ctl.model.plan.llm_fields import LLMFields
from rayllm_ctl.model.spec.checks.engine_args import forbidden_args, names_a_secret, type_problem
from rayllm_ctl.model.text.problems import Path, quoted
from rayllm_ctl.serveconfig.deployment import (
    ACTOR_FIELDS,
    AUTOSCALING_FIELDS,
    DEPLOYMENT_FIELDS,
    deployment_as_a_whole,
)
from rayllm_ctl.serveconfig.llmrules import both, bucket, hardware, instead, scaling_bounds, typed
from rayllm_ctl.serveconfig.runtimeenv import runtime_env
from rayllm_ctl.serveconfig.shapes import (
    Report,
    Rule,
    anything,
    entries,
    items,
    nullable,
    number,
    one_of,
    section,
    shown,
)

STRATEGIES: Final = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")

_OPENAI: Final = "ray.serve.llm:build_openai_app"
_UNSUPPORTED: Final[Mapping[Pattern, tuple[str, str]]] = {
    "data-parallel": (
        "starts the replicas of a model in groups that share its experts and need all their GPUs at once: planning and "
        "placing such groups is not supported",
        f"{_OPENAI} with more replicas (deployment_config.autoscaling_config.max_replicas)",
    ),
    "prefill-decode": (
        "starts replicas for prefill and others for decode, which pass the KV cache on between pods: planning both and "
        "the network between them is not supported",
        f"{_OPENAI} with one llm_configs entry for the model",
    ),
    "deployment": ("builds a deployment without an HTTP API, not an application", _OPENAI),
}

_MOVED: Final = {
    "resources_per_bundle": "placement_group_config.bundle_per_worker",
    "use_cpu": "accelerator_config: {kind: cpu}",
    "num_router_replicas": "ingress_deployment_config on the level of llm_configs",
}
"""Fields of earlier releases, and what has taken their place."""


def check_llm(application: Mapping[str, Any], at: Path, fields: LLMFields, report: Report) -> None:
    """The rules for an application, if a builder of Ray Serve LLM makes it. Its own fields are valid."""
    pattern = pattern_of(application)
    if pattern is None and is_of_ray_serve_llm(application):
        hint = f"the builder of applications with models is {_OPENAI}"
        report.reject((*at, "import_path"), f"is not a builder of Ray {fields.ray}", hint)
    if pattern is None or pattern == "own":
        return
    if pattern in _UNSUPPORTED:
        reason, hint = _UNSUPPORTED[pattern]
        report.reject((*at, "import_path"), f"{application['import_path']} {reason}", hint)
        return
    _Rules(fields).arguments(application.get("args", {}), (*at, "args"), report)
    if len(report.problems) == 0:
        _ids(application, at, report)
        _names(application, at, report)


def _ids(application: Mapping[str, Any], at: Path, report: Report) -> None:
    seen: dict[str | None, Path] = {}
    for entry in llm_entries(application):
        if entry.model_id in seen:
            report.reject(
                (*at, *entry.path, "model_loading_config", "model_id"),
                f"{quoted(str(entry.model_id))} is the id of another model of the application",
            )
        seen[entry.model_id] = entry.path


def _names(application: Mapping[str, Any], at: Path, report: Report) -> None:
    """Options for deployments that the builder does not make. Ray fails to build such an application
    (ray/serve/_private/application_state.py)."""
    built = deployment_options({**application, "deployments": ()})
    for index, deployment in enumerate(application.get("deployments") or ()):
        name = deployment["name"]
        if name not in built:
            known = ", ".join(built)
            message = f"the application has no deployment {quoted(name)} (it has {known})"
            report.reject((*at, "deployments", index, "name"), message, _nearest_deployment(name, built))


def _nearest_deployment(name: str, built: Iterable[str]) -> str:
    """The deployment that was probably meant, whose name begins with a prefix that people leave out."""
    short = {one.partition(":")[2] or one: one for one in built}
    near = nearest(name, (*short, *short.values()))
    return f"did you mean {short.get(near, near)}?" if near else ""


class _Rules:
    """The rules of one version of Ray Serve LLM."""

    def __init__(self, fields: LLMFields) -> None:
        self._fields = fields
        self._unknown = f"unknown field of Ray Serve LLM {fields.ray}"
        deployment = self._deployment()
        self._config = self._section(
            "config",
            {
                "runtime_env": nullable(runtime_env),
                "model_loading_config": self._section(
                    "loading",
                    {"model_source": self._source},
                    elsewhere=dict.fromkeys(("path", "model"), "model_source"),
                ),
                "llm_engine": one_of("vLLM"),
                "engine_kwargs": self._engine,
                "accelerator_type": nullable(self._accelerator),
                "accelerator_config": nullable(self._hardware),
                "placement_group_config": nullable(self._placement()),
                "lora_config": nullable(self._section("lora", {"dynamic_lora_loading_path": nullable(bucket)})),
                "deployment_config": deployment,
                "callback_config": self._section("callback", {}),
            },
            then=self._whole_config,
            elsewhere=self._elsewhere(),
        )
        self.arguments: Rule = self._section(
            "args",
            {
                "llm_configs": self._configs,
                "ingress_cls_config": self._section("ingressClass", {}),
                "ingress_deployment_config": deployment,
            },
        )

    def _section(
        self,
        name: str,
        rules: Mapping[str, Rule],
        then: Rule = anything,
        elsewhere: Mapping[str, str] | None = None,
    ) -> Rule:
        """The section of a class of Ray's: `rules` for fields beside their types, as far as this version has them."""
        types = self._fields.classes[name]
        found = {field: both(typed(kind.removeprefix("!")), rules.get(field)) for field, kind in types.items()}
        return section(
            found,
            required=[field for field, kind in types.items() if kind.startswith("!")],
            closed=True,
            then=then,
            unknown=self._unknown,
            elsewhere=elsewhere or {},
        )

    def _elsewhere(self) -> dict[str, str]:
        """Fields of the sections of a configuration that may have been written beside them."""
        fields = self._fields
        sections = {
            "model_loading_config": fields.classes["loading"],
            "deployment_config": fields.deployment,
            "deployment_config.autoscaling_config": fields.classes["autoscaling"],
            "engine_kwargs": fields.arguments,
        }
        found = {key: f"{name}.{key}" for name, keys in sections.items() for key in keys}
        return {**found, **_MOVED}

    def _deployment(self) -> Rule:
        fields, unknown = self._fields, f"unknown option of a deployment in Ray {self._fields.ray}"
        scaling = section(
            {key: AUTOSCALING_FIELDS.get(key, anything) for key in fields.classes["autoscaling"]},
            closed=True,
            then=scaling_bounds,
            unknown=f"unknown field of autoscaling in Ray {fields.ray}",
        )
        actor = section(ACTOR_FIELDS, closed=True, unknown=f"unknown option of an actor in Ray {fields.ray}")
        rules = {key: DEPLOYMENT_FIELDS.get(key, anything) for key in fields.deployment}
        rules |= {"autoscaling_config": nullable(scaling), "ray_actor_options": actor}
        rules |= dict.fromkeys(
            ("placement_group_bundles", "placement_group_strategy"), instead("placement_group_config")
        )
        rules["max_replicas_per_node"] = instead("nothing: a replica has a placement group")
        return section(
            rules,
            closed=True,
            then=deployment_as_a_whole,
            unknown=unknown,
            elsewhere={key: f"autoscaling_config.{key}" for key in fields.classes["autoscaling"]},
        )

    def _configs(self, value: Any, path: Path, report: Report) -> None:
        if not value:
            report.reject(path, "must contain the configuration of a model")
        for index, config in enumerate(value):
            if isinstance(config, str):
                report.reject(
                    (*path, index),
                    "is the path of a file in the pods, which cannot be read here",
                    "put its content here",
                )
            else:
                self._config(config, (*path, index), report)

    def _engine(self, value: Any, path: Path, report: Report) -> None:
        known, forbidden = self._fields.arguments, forbidden_args("rayservice")
        for key, given in value.items():
            here = (*path, key)
            if key == "disable_log_stats":
                continue  # depends on log_engine_metrics
            if key == "distributed_executor_backend":
                if given not in ("ray", None):
                    report.reject(here, f"{shown(given)} is not supported: Ray Serve LLM runs the engine on ray")
            elif key == "data_parallel_size":
                if given not in (1, None):
                    report.reject(
                        here, "cannot be set: build_openai_app does not start replicas together", "num_replicas"
                    )
            elif key in forbidden:
                report.reject(here, f"cannot be set: {forbidden[key]}", self._moved(key))
            elif key not in known:
                hint = did_you_mean(key.replace("-", "_"), known)
                report.reject(here, f"unknown engine argument of vLLM {self._fields.vllm}", hint)
            elif problem := type_problem(given, known[key]):
                report.reject(here, problem)
            elif isinstance(given, str) and names_a_secret(key) and given:
                report.note(here, "looks like a credential; anyone who can read the RayService can read it",
                            "--hf-token-secret NAME/KEY")  # fmt: skip

    @staticmethod
    def _moved(key: str) -> str:
        return {"model": "model_loading_config.model_source", "served_model_name": "model_loading_config.model_id"}.get(
            key, ""
        )

    def _accelerator(self, value: Any, path: Path, report: Report) -> None:
        # Ray takes A10 for A10G (validate_accelerator_type).
        if not isinstance(value, str) or value in (*self._fields.accelerators, "A10"):
            return
        known = self._fields.gpu_types.get(value.casefold())
        report.reject(
            path,
            f"{shown(value)} is not an accelerator type of Ray {self._fields.ray}",
            f"did you mean {known}?"
            if known in self._fields.accelerators
            else did_you_mean(value, self._fields.accelerators),
        )

    def _hardware(self, value: Any, path: Path, report: Report) -> None:
        kind = value.get("kind")
        if kind not in ("cpu", "gpu", "tpu"):
            report.reject((*path, "kind"), f"must be cpu, gpu or tpu, not {shown(kind)}")
        else:
            self._section(kind, {})(value, path, report)

    def _placement(self) -> Rule:
        bundle = entries(number(at_least=0))

        def whole(value: Any, path: Path, report: Report) -> None:
            given = [key for key in ("bundle_per_worker", "bundles") if value.get(key) is not None]
            if len(given) != 1:
                report.reject(path, "must have either bundle_per_worker or bundles")

        return self._section(
            "placement",
            {
                "bundle_per_worker": nullable(bundle),
                "bundles": nullable(items(bundle)),
                "strategy": one_of(*STRATEGIES),
            },
            then=whole,
        )

    def _source(self, value: Any, path: Path, report: Report) -> None:
        if isinstance(value, dict):
            files = items(self._section("extraFiles", {}))
            self._section("mirror", {"bucket_uri": nullable(bucket), "extra_files": files})(value, path, report)

    def _whole_config(self, value: Any, path: Path, report: Report) -> None:
        metrics, arguments = value.get("log_engine_metrics", True), value.get("engine_kwargs") or {}
        if metrics and arguments.get("disable_log_stats"):
            report.reject(
                (*path, "engine_kwargs", "disable_log_stats"),
                "the engine's metrics need it",
                "log_engine_metrics: false",
            )
        experimental = value.get("experimental_configs") or {}
        ingress = "ingress_deployment_config beside llm_configs"
        if "num_router_replicas" in experimental:
            report.reject((*path, "experimental_configs", "num_router_replicas"), "was removed", ingress)
        if "num_ingress_replicas" in experimental:
            report.note((*path, "experimental_configs", "num_ingress_replicas"), "Ray reads it nowhere", ingress)
        named, kind = value.get("accelerator_type"), hardware(value)
        if named and kind == "cpu":
            report.reject((*path, "accelerator_type"), "cannot be combined with CPUs", "leave it out")
        elif named and (kind == "tpu") != str(named).startswith("TPU-"):
            report.reject((*path, "accelerator_type"), f"{shown(named)} is not of the kind {kind}")
