"""Rules of an LLMService that need more than one of its sections, in CEL."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from rayllm_ctl.model.kube.names import MAX_SERVICE_NAME
from rayllm_ctl.model.spec.gateway import (
    INGRESS_CODE,
    INGRESS_PATH,
    KEYS_PATH,
    KEYS_VOLUME,
    PROXY_CALLBACK,
    REDIS_PASSWORD,
    SERVING_PATH,
)
from rayllm_ctl.model.spec.ray_options import INCREMENTAL, NO_SHRINK
from rayllm_ctl.model.spec.service import Engine, LLMService, Load, ModelEngine, ModelEntry, Parallelism, Replicas
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.specfile.crd.model import (
    ALSO_NAMED,
    ARGS,
    ENTRY,
    LORA,
    OF_CPUS,
    ON_CPU,
    ON_TRANSFORMERS,
    args_named,
    forbidden,
    named_keys,
    of_one_model,
)
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules, by_default, has, some, unless, value
from rayllm_ctl.specfile.crd.schema import Schema
from rayllm_ctl.specfile.crd.storage import service_storage_rules, storage_rules

NAME_RULE = CelRule(
    f"size(self.metadata.name) <= {MAX_SERVICE_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    f"metadata.name must be a DNS-1035 label of at most {MAX_SERVICE_NAME} characters: lower-case letters, digits and "
    "'-', with a letter at the start and a letter or digit at the end",
)
"""Of the root of the object; KubeRay appends to the name."""

_SERVER = f"{value('mode', repr('rayservice'))} == 'raycluster'"
_ROLLOUT = value("rollout", "'auto'")
_INCREMENTAL = f"{value('upgrade.strategy', repr('NewCluster'))} == '{INCREMENTAL}'"
_RESTRICTED = f"{value('security.network', repr('open'))} == 'restricted'"
_MODELS = some("models")
_ADAPTERS = some("model.adapters")
_GATEWAY = has("gateway")
_ON_SERVER = "does not apply to mode raycluster"


def _belongs_to_models() -> Iterator[CelRule]:
    """The fields that each of several models has for itself."""
    sections: tuple[tuple[str, type], ...] = (
        ("engine", ModelEngine), ("parallelism", Parallelism), ("replicas", Replicas), ("load", Load),
    )  # fmt: skip
    for name, section in sections:
        given = []
        for field in dataclasses.fields(section):
            path = f"{name}.{camel(field.name)}"
            if isinstance(field.default, (bool, int, str)):
                default = str(field.default).lower() if isinstance(field.default, bool) else repr(field.default)
                given.append(f"{value(path, default)} != {default}")
            else:
                given.append(f"({has(path)})")
        yield CelRule(
            f"!({_MODELS}) || !({' || '.join(given)})",
            f"belongs to each model where there are several: spec.models[].{name}",
            f".{name}",
        )
    yield CelRule(
        f"!({_MODELS}) || ({by_default('accelerator.kind', repr('gpu'))} && !({has('accelerator.gpu')}))",
        "belongs to each model where there are several: spec.models[].accelerator",
        ".accelerator",
    )
    yield CelRule(
        unless(_MODELS, "resources.worker.cpu", "resources.worker.memory"),
        "belongs to each model where there are several: spec.models[].resources.worker",
        ".resources.worker",
    )


def _models() -> Iterator[CelRule]:
    yield CelRule(f"has(self.model) != ({_MODELS})", "expected either model or models")
    yield from _belongs_to_models()
    yield CelRule(unless(_MODELS, "workerGroups[]"), "cannot be combined with models", ".workerGroups")
    yield CelRule(
        unless(some("applications"), "workerGroups[]"), "cannot be combined with applications", ".workerGroups"
    )
    for name, given in (("id", "true"), ("name", "has(one.name)")):
        same = f"{given.replace('one', 'other')} && other.{name} == one.{name}"
        yield CelRule(
            f"!({_MODELS}) || self.models.all(one, {given} ? self.models.filter(other, {same}).size() == 1 : true)",
            f"two have the same {name}",
            ".models",
        )
    kind = value("accelerator.kind", "'gpu'", "one")
    yield CelRule(
        f"!({_MODELS}) || self.models.map(one, {kind}).all(kind, kind == {kind.replace('one.', 'self.models[0].')})",
        "all models of a service have the same accelerator.kind: their pods have one image",
        ".models",
    )
    yield CelRule(
        f"!({_MODELS}) || self.models.all(one, !has(one.tokenSecret) || self.models.all(other, "
        "!has(other.tokenSecret) || "
        "(other.tokenSecret.name == one.tokenSecret.name && other.tokenSecret.key == one.tokenSecret.key)))",
        "all models of a service have the same tokenSecret: head and ingress read all of them with one token",
        ".models",
    )


def _mode() -> Iterator[CelRule]:
    """What vLLM's own server does without."""
    low = "(has(self.replicas.min) ? self.replicas.min : 1)"
    high = "(has(self.replicas.max) ? self.replicas.max : 1)"
    yield CelRule(
        f"!({_SERVER}) || !has(self.replicas) || has(self.replicas.count) || ({low} == {high})",
        "must equal max in mode raycluster, which has no autoscaler",
        ".replicas.min",
    )
    scaling = [
        f"replicas.{camel(field.name)}"
        for field in dataclasses.fields(Replicas)
        if field.name not in ("min", "max", "count")
    ]
    yield CelRule(
        unless(_SERVER, *scaling),
        "in mode raycluster, which has no autoscaler, only count, or min and max",
        ".replicas",
    )
    without: dict[str, str] = {
        "models[]": "requires mode rayservice: vLLM's own server serves one model",
        "model.adapters[]": "requires mode rayservice; engine.args.lora_modules",
        "applications[]": "requires mode rayservice: vLLM's own server runs without Ray Serve",
        "serve": f"{_ON_SERVER}, which runs without Ray Serve",
        "gateway": f"{_ON_SERVER}, which runs without Ray Serve, whose ingress the gateway is",
        "workerGroups[]": f"{_ON_SERVER}, which has no autoscaler",
        "ray.idleTimeout": f"{_ON_SERVER}, which has no autoscaler",
        "upgrade.deletionDelay": f"{_ON_SERVER}: there is no second cluster",
    }
    for field, why in without.items():
        yield CelRule(unless(_SERVER, field), why, f".{field.removesuffix('[]')}")
    yield CelRule(f"!({_SERVER}) || !({ON_TRANSFORMERS})", "transformers requires mode rayservice", ".engine.kind")
    yield CelRule(f"!({_SERVER}) || !({_INCREMENTAL})", "requires mode rayservice", ".upgrade.strategy")
    yield CelRule(
        f"!({_SERVER}) || {_ROLLOUT} in ['auto', 'in-place']",
        "requires mode rayservice: KubeRay replaces the pods of a RayCluster all at once",
        ".rollout",
    )
    yield CelRule(
        f"{_ROLLOUT} != 'shrink'",
        f"shrink: {NO_SHRINK}",
        ".rollout",
    )
    yield CelRule(
        f"{_ROLLOUT} != 'new-cluster' || {value('upgrade.strategy', repr('NewCluster'))} != 'None'",
        "new-cluster cannot be combined with upgrade.strategy: None, with which KubeRay starts no second RayCluster",
        ".rollout",
    )
    yield CelRule(
        f"!({_SERVER}) || !({some('scheduling.rayResources')})",
        f"{_ON_SERVER}: vLLM asks Ray for GPUs only",
        ".scheduling.rayResources",
    )
    yield CelRule(
        f"!({_SERVER} && {ON_CPU}) || {value('parallelism.tensor', '1')} <= 1",
        "must be 1 for CPU services in mode raycluster",
        ".parallelism.tensor",
    )
    only_serve = tuple(sorted({*args_named("rayservice")} - {*args_named("raycluster")}))
    only_server = tuple(sorted({*args_named("raycluster")} - {*args_named("rayservice")}))
    yield from forbidden(tuple(sorted({*args_named("rayservice")} & {*args_named("raycluster")})))
    yield from forbidden(only_serve, f"!({_SERVER})")
    yield from forbidden(only_server, _SERVER)


def _gateway() -> Iterator[CelRule]:
    served = f"{_GATEWAY} || ({_MODELS}) || ({_ADAPTERS}) || ({some('applications')}) || {ON_TRANSFORMERS}"
    yield CelRule(
        f"{by_default('engine.servingCode', repr('mounted'))} || {served}",
        "has no effect without gateway",
        ".engine.servingCode",
    )
    tokens = "gateway.validation.promptTokens.min"
    yield CelRule(
        f"!({has(tokens)} && {has('engine.maxModelLen')}) || self.{tokens} < self.engine.maxModelLen",
        "no such prompt fits engine.maxModelLen",
        f".{tokens}",
    )
    names = ", ".join(map(repr, (KEYS_VOLUME, "serving", "ingress-code")))
    paths = ", ".join(map(repr, (KEYS_PATH, SERVING_PATH, INGRESS_PATH)))
    yield CelRule(
        f"!({_GATEWAY} && {has('storage.volumes')}) || self.storage.volumes.all(one, !(one.name in [{names}]) && "
        f"!(one.mountPath in [{paths}]))",
        "one has the name or the path of a volume of the gateway",
        ".storage.volumes",
    )
    set_by_gateway = sorted({*PROXY_CALLBACK, INGRESS_CODE})
    yield CelRule(
        f"!({_GATEWAY} && {has('engine.env')}) || ![{', '.join(map(repr, set_by_gateway))}].exists(name, "
        "name in self.engine.env)",
        f"{' and '.join(set_by_gateway)} are set by the gateway",
        ".engine.env",
    )
    names = ", ".join(map(repr, sorted({"PYTHONPATH", REDIS_PASSWORD, *set_by_gateway})))
    for pod in ("head", "worker"):
        yield CelRule(
            f"!({_GATEWAY} && {has(f'pods.{pod}.env')}) || self.pods.{pod}.env.all(one, !(one.name in [{names}]))",
            "has a variable that is set by the gateway",
            f".pods.{pod}.env",
        )


def pods() -> Iterator[CelRule]:
    """What services and batch jobs have alike."""
    yield CelRule(
        f"!({has('storage.volumes')}) || {value('security.podSecurity', repr('restricted'))} == 'privileged' || "
        "self.storage.volumes.all(one, !has(one.hostPath))",
        "hostPath requires security.podSecurity: privileged: pods must not mount directories of the node",
        ".storage.volumes",
    )
    yield CelRule(
        f"!({has('storage.volumes')}) || self.storage.volumes.all(one, "
        "self.storage.volumes.filter(other, other.mountPath == one.mountPath).size() == 1)",
        "two have the same mountPath",
        ".storage.volumes",
    )
    for pod in ("head", "worker"):
        yield CelRule(
            f"!({has('engine.env')} && {has(f'pods.{pod}.env')}) || self.pods.{pod}.env.all(one, "
            "!(one.name in self.engine.env))",
            "has a variable that is set by engine.env as well",
            f".pods.{pod}.env",
        )
        yield CelRule(
            f"!({has('model.tokenSecret')} && {has(f'pods.{pod}.env')}) || self.pods.{pod}.env.all(one, "
            "one.name != 'HF_TOKEN')",
            "HF_TOKEN is set by model.tokenSecret as well",
            f".pods.{pod}.env",
        )


def _access() -> Iterator[CelRule]:
    outside = (
        f"{value('exposure.type', repr('ClusterIP'))} != 'ClusterIP' || ({has('exposure.ingress')}) || "
        f"({has('exposure.gateway')}) || {_INCREMENTAL}"
    )
    yield CelRule(
        f"!({_RESTRICTED}) || !({outside}) || ({some('security.allowFrom')})",
        "required for what is exposed: by default only pods of the namespace may connect",
        ".security.allowFrom",
    )
    monitored = f"({has('monitoring.podMonitor')}) || ({has('monitoring.serviceMonitor')})"
    yield CelRule(
        f"!({_RESTRICTED}) || !({monitored}) || ({some('security.allowMetricsFrom')})",
        "required with monitoring: Prometheus could not connect to the metrics ports",
        ".security.allowMetricsFrom",
    )
    given = (
        f"{value('exposure.type', repr('ClusterIP'))} != 'ClusterIP' || ({has('exposure.annotations')}) || "
        f"({has('exposure.sourceRanges')}) || ({has('exposure.ingress')}) || ({has('exposure.gateway')})"
    )
    yield CelRule(
        f"!({_INCREMENTAL}) || !({given})", f"cannot be combined with upgrade.strategy: {INCREMENTAL}", ".exposure"
    )
    yield CelRule(
        f"!({_INCREMENTAL}) || {value('serve.proxyLocation', repr('EveryNode'))} != 'HeadOnly'",
        f"HeadOnly cannot be combined with upgrade.strategy: {INCREMENTAL}",
        ".serve.proxyLocation",
    )
    kind = value("accelerator.kind", "'gpu'")
    yield CelRule(
        f"!({has('workerGroups')}) || self.workerGroups.all(one, one.name != {kind})",
        "one has the name of the planned group",
        ".workerGroups",
    )
    yield CelRule(
        f"!({has('workerGroups')} && {ON_CPU}) || self.workerGroups.all(one, !has(one.gpus))",
        f"gpus {OF_CPUS}",
        ".workerGroups",
    )
    yield CelRule(
        unless(ON_TRANSFORMERS, "model.adapters[]"), "does not apply to engine kind transformers", ".model.adapters"
    )
    yield CelRule(
        unless(_ADAPTERS, LORA),
        "enable_lora is set by model.adapters",
        ARGS,
    )
    yield CelRule(
        unless(f"{ON_TRANSFORMERS} && !({_MODELS})", "engine.vllmVersion"),
        "does not apply to engine kind transformers",
        ".engine.vllmVersion",
    )


LLM_SERVICE_RULES: CelRules = {
    LLMService: (
        *_models(),
        *of_one_model(),
        *_mode(),
        *_gateway(),
        *pods(),
        *_access(),
        *storage_rules(),
        *service_storage_rules(),
    ),
    ModelEntry: ENTRY,
}

SERVICE_ARGUMENTS: Mapping[tuple[type, str], Schema] = {
    (Engine, "args"): named_keys([*args_named("rayservice"), *args_named("raycluster"), *ALSO_NAMED]),
    (ModelEngine, "args"): named_keys([*args_named("rayservice"), *ALSO_NAMED]),
}
"""Engine arguments that rules name."""
