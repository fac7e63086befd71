"""Serve applications with models: which builders make them, and the configuration of each model in their arguments.

Read in Ray 2.60: ray/serve/llm/__init__.py, and the builders below ray/llm/_internal/serve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import ENGINE_DEPLOYMENT, INGRESS_DEPLOYMENT, MODEL_BUILDER, deployment_suffix
from rayllm_ctl.model.text.problems import Path

Pattern = Literal["openai", "data-parallel", "prefill-decode", "deployment", "own"]
"""How an application serves models: Ray's ingress with a deployment for each; one model whose replicas are ranks of a
data parallel group; one model with replicas for prefill and others for decode; a deployment alone, without an HTTP API;
a model behind our own ingress."""

_PACKAGES: Final = ("ray.serve.llm", "ray.llm")
_BUILDERS: Final[Mapping[str, Pattern]] = {
    "build_openai_app": "openai",
    "build_dp_openai_app": "data-parallel",
    "build_pd_openai_app": "prefill-decode",
    "build_llm_deployment": "deployment",
    "build_dp_deployment": "deployment",
}
_SINGLE: Final[Mapping[Pattern, Mapping[str, str]]] = {
    "data-parallel": {"llm_config": "DPServer:"},
    "prefill-decode": {"prefill_config": "Prefill:", "decode_config": "Decode:"},
}
"""Arguments with one configuration, and how the name of its deployment begins."""

_REPLICAS: Final = ("num_replicas", "autoscaling_config")


@dataclass(frozen=True)
class LLMEntry:
    """A configuration of a model in a Serve application. path: below the application. prefix: how the name of its
    deployment begins."""

    path: Path
    config: Mapping[str, Any]
    prefix: str = ENGINE_DEPLOYMENT

    @property
    def model_id(self) -> str | None:
        """The name by which clients ask for the model; None if the configuration has none."""
        loading = self.config.get("model_loading_config")
        found = loading.get("model_id") if isinstance(loading, Mapping) else None
        return str(found) if isinstance(found, (str, int, float)) and not isinstance(found, bool) else None

    @property
    def options(self) -> Mapping[str, Any]:
        """The configuration of its deployment."""
        found = self.config.get("deployment_config")
        return found if isinstance(found, Mapping) else {}

    @property
    def deployment(self) -> str | None:
        """The name of its deployment."""
        name = self.options.get("name")
        if isinstance(name, str) and name:
            return self.prefix + name
        return None if self.model_id is None else self.prefix + deployment_suffix(self.model_id)


def pattern_of(application: Mapping[str, Any]) -> Pattern | None:
    """How an application serves models; None if nothing is known of its builder."""
    path = application.get("import_path")
    if path == MODEL_BUILDER:
        return "own"
    return _BUILDERS.get(str(path).rpartition(":")[2].rpartition(".")[2]) if is_of_ray_serve_llm(application) else None


def is_of_ray_serve_llm(application: Mapping[str, Any]) -> bool:
    """Whether the builder of an application is in Ray's own package."""
    module = str(application.get("import_path")).replace(":", ".").rpartition(".")[0]
    return any(module == package or module.startswith(f"{package}.") for package in _PACKAGES)


def llm_entries(application: Mapping[str, Any]) -> Iterator[LLMEntry]:
    """The configurations of models in the arguments of an application, as far as they are mappings."""
    pattern, args = pattern_of(application), application.get("args")
    if pattern is None or not isinstance(args, Mapping):
        return
    if pattern == "own":
        yield LLMEntry(("args",), args)
    elif pattern == "openai":
        yield from _listed(args)
    else:
        for key, prefix in _SINGLE.get(pattern, {}).items():
            if isinstance(args.get(key), Mapping):
                yield LLMEntry(("args", key), args[key], prefix)


def described_models(application: Mapping[str, Any]) -> Iterator[LLMEntry]:
    """llm_entries; of an application with a builder of the user's own, what its arguments describe in the same form."""
    args = application.get("args")
    if pattern_of(application) is not None or not isinstance(args, Mapping):
        yield from llm_entries(application)
    else:
        yield from (LLMEntry(("args",), args), *_listed(args))


def _listed(args: Mapping[str, Any]) -> Iterator[LLMEntry]:
    listed = args.get("llm_configs")
    for index, config in enumerate(listed if isinstance(listed, (list, tuple)) else ()):
        if isinstance(config, Mapping):
            yield LLMEntry(("args", "llm_configs", index), config)


def deployment_options(application: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of the deployments of an application by their names, with those that Ray Serve LLM takes from its
    arguments: what the file lists wins."""
    found: dict[str, dict[str, Any]] = {}
    for entry in llm_entries(application):
        if entry.deployment is not None:
            found[entry.deployment] = {**_defaults(entry.options), **entry.options}
    pattern, args = pattern_of(application), application.get("args")
    if found and pattern != "own" and isinstance(args, Mapping):
        given = args.get("ingress_deployment_config")
        options = given if isinstance(given, Mapping) else {}
        found[INGRESS_DEPLOYMENT] = {**_defaults(options), **options}
    listed = application.get("deployments")
    for item in listed if isinstance(listed, (list, tuple)) else ():
        if isinstance(item, Mapping):
            name = str(item.get("name"))
            found[name] = {**_without_replicas(found.get(name, {}), item), **item}
    return found


def _defaults(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """One replica, unless the options say otherwise: Ray Serve LLM autoscales from 1 to 1 where nothing is said."""
    return {} if "num_replicas" in options else {"autoscaling_config": {}}


def _without_replicas(earlier: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """`earlier` without its number of replicas where `item` states one: either is fixed or autoscaled."""
    stated = {"num_replicas", "autoscaling_config"} & item.keys()
    return {key: value for key, value in earlier.items() if not stated or key not in _REPLICAS}
