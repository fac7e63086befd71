"""Rules of the sections of models and their pods, in CEL: what each says for itself is wrong with it."""

from __future__ import annotations

from rayllm_ctl.model.spec import patches, service, transformers
from rayllm_ctl.model.spec.checks.engine_args import RESERVED_ENV
from rayllm_ctl.model.spec.checks.pod_fields import RAY_OWN, RAY_PREFIXES
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.text import patterns
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules, count_of, has, unless, value
from rayllm_ctl.specfile.crd.shapes import POSITIVE, WHOLE_SECONDS, keys, matches, matches_data_key, matches_object_name
from rayllm_ctl.specfile.crd.surroundings import ONE_SOURCE, RESERVED_NAMES, SURROUNDINGS, TOKENS

_LOW, _HIGH = value("min", "1"), value("max", "1")
_SOURCES = ("persistentVolumeClaim", "hostPath", "configMap", "secret")
_KIND = value("kind", "'vllm'")
_QUANTIZED = "['" + "', '".join(transformers.QUANTIZATIONS) + "']"
_KUBERAY_PATHS = "['/dev/shm', '/tmp/ray']"
_VOLUME_NAMES = {
    "shared-mem": "KubeRay adds a volume of this name",
    "ray-logs": "KubeRay adds a volume of this name",
    "ray-token": "KubeRay adds a volume of this name",
    "autoscaler-token": "the head has a volume of this name",
}
_RESERVED = "key.startsWith('ray.io/') || key.startsWith('rayllm.io/')"
_OWN = ", ".join(map(repr, RAY_OWN))
_PREFIXES = " || ".join(f"name.startsWith('{prefix}')" for prefix in RAY_PREFIXES)
_RAY_NAMES = (
    CelRule(f"self.all(name, {matches('name', patterns.RAY_RESOURCE)})", "not a valid name of a custom resource"),
    CelRule(f"!self.exists(name, name in [{_OWN}] || {_PREFIXES})", "has a resource of Ray's own"),
)

SECTIONS: CelRules = {
    **SURROUNDINGS,
    (service.Scheduling, "node_selector"): (keys("label"),),
    (service.ExtraWorkers, "node_selector"): (keys("label"),),
    (service.Scheduling, "ray_resources"): (*_RAY_NAMES,),
    (service.ExtraWorkers, "ray_resources"): (*_RAY_NAMES,),
    patches.PatchTarget: (
        CelRule(f"{count_of(('kind', 'name', 'group', 'version'))} > 0", "requires kind, name, group or version"),
    ),
    SecretKey: (
        CelRule(
            f"{matches_object_name('self.name')} && {matches_data_key('self.key')}",
            "expected the name of a Secret and one of its keys, not the secret itself",
        ),
    ),
    service.Model: (
        CelRule(
            unless(has("path"), "revision"),
            "cannot be combined with path: only the Hugging Face Hub has revisions",
            ".revision",
        ),
        CelRule(
            "!has(self.adapters) || !self.adapters.exists(one, one.id == self.id)",
            "one has the id of the model",
            ".adapters",
        ),
    ),
    service.ModelEngine: (
        CelRule(
            "!has(self.maxNumSeqs) || !has(self.maxNumBatchedTokens) || self.maxNumBatchedTokens >= self.maxNumSeqs",
            "is less than maxNumSeqs",
            ".maxNumBatchedTokens",
        ),
        CelRule(unless(f"{_KIND} == 'vllm'", "transformers"), "requires engine kind transformers", ".transformers"),
        CelRule(
            f"{_KIND} == 'transformers' || !has(self.quantization) || !(self.quantization in {_QUANTIZED})",
            "requires engine kind transformers; for vLLM quantization: bitsandbytes",
            ".quantization",
        ),
        CelRule(
            f"{_KIND} == 'vllm' || !has(self.quantization) || self.quantization in {_QUANTIZED}",
            f"is not supported by engine kind transformers (supported values: {', '.join(transformers.QUANTIZATIONS)})",
            ".quantization",
        ),
        CelRule(
            unless(f"{_KIND} == 'transformers'", "kvCacheDtype", "gpuMemoryUtilization", "maxNumBatchedTokens"),
            "kvCacheDtype, gpuMemoryUtilization and maxNumBatchedTokens do not apply to engine kind transformers",
        ),
        CelRule(
            unless(has("quantization"), "transformers.cpuMemory"),
            "cannot be combined with quantization: bitsandbytes holds quantized layers on GPUs only",
            ".transformers.cpuMemory",
        ),
    ),
    (service.Engine, "env"): (
        CelRule(
            f"!{TOKENS}.exists(name, name in self)",
            "a token must be in a Secret: spec.model.tokenSecret",
        ),
        CelRule(
            f"![{RESERVED_NAMES}].exists(name, name in self)",
            "has a variable that KubeRay sets, or that contradicts the manifests: one of "
            + ", ".join(sorted(RESERVED_ENV)),
        ),
        CelRule(f"self.all(name, {matches('name', patterns.ENV_NAME)})", "not a valid environment variable name"),
    ),
    service.Accelerator: (
        CelRule(unless(f"{value('kind', repr('gpu'))} == 'cpu'", "gpu"), "does not apply to CPU services", ".gpu"),
    ),
    service.Replicas: (
        CelRule(
            unless(has("count"), "min", "max"),
            "cannot be combined with min and max, between which Ray Serve scales: change them instead of using "
            "kubectl scale, or replace them by count",
            ".count",
        ),
        CelRule(
            "!has(self.count) || self.count >= 1",
            "must be at least 1: spec.suspend stops a service; min: 0 with max stops it when idle",
            ".count",
        ),
        CelRule(f"{has('count')} || {_LOW} <= {_HIGH}", "is greater than max", ".min"),
        CelRule(
            f"!has(self.initial) || ({has('count')} ? self.initial == self.count : "
            f"self.initial >= {_LOW} && self.initial <= {_HIGH})",
            "is not between min and max",
            ".initial",
        ),
        CelRule(
            f"!has(self.downscaleToZeroDelay) || {value('min', '1')} == 0",
            "has no effect unless min is 0",
            ".downscaleToZeroDelay",
        ),
    ),
    (service.Replicas, "look_back_period"): (POSITIVE,),
    (service.Replicas, "metrics_interval"): (POSITIVE,),
    service.Volume: (
        CelRule(f"{count_of(_SOURCES)} == 1", f"{ONE_SOURCE} ({', '.join(_SOURCES)})"),
        CelRule(
            f"!(self.name in [{', '.join(map(repr, _VOLUME_NAMES))}])",
            "is reserved: KubeRay or the head has a volume of this name",
            ".name",
        ),
        CelRule(f"!(self.mountPath in {_KUBERAY_PATHS})", "is reserved: KubeRay mounts a volume there", ".mountPath"),
        CelRule(
            f"!(has(self.configMap) || has(self.secret)) || {value('readOnly', 'true')}",
            "must be true: Kubernetes mounts ConfigMaps and Secrets read-only",
            ".readOnly",
        ),
    ),
    (service.Load, "ttft"): (POSITIVE,),
    (service.Load, "tpot"): (POSITIVE,),
    service.Load: (
        CelRule(
            "!has(self.cachedTokens) || has(self.inputTokens)",
            "requires inputTokens",
            ".cachedTokens",
        ),
        CelRule(
            "!has(self.cachedTokens) || !has(self.inputTokens) || type(self.inputTokens) == string || "
            "self.cachedTokens < self.inputTokens",
            "must be less than inputTokens: the last token is always computed",
            ".cachedTokens",
        ),
        CelRule(
            "!has(self.calibration)",
            "names a file next to the spec file, which the controller does not have: only the command line reads it",
            ".calibration",
        ),
    ),
    (service.PodResources, "cpu"): (POSITIVE,),
    (service.PodResources, "memory"): (POSITIVE,),
    service.ExtraWorkers: (
        CelRule("self.name != 'headgroup'", "is reserved: KubeRay calls the head's group so", ".name"),
        CelRule(f"{value('min', '0')} <= {value('max', '1')}", "is greater than max", ".min"),
        CelRule(
            f"{value('gpus', '1')} != 0 || ({has('resources.cpu')} && {has('resources.memory')})",
            "cpu and memory are required for pods without GPUs",
            ".resources",
        ),
    ),
    (service.ExtraWorkers, "idle_timeout"): (POSITIVE, WHOLE_SECONDS),
}
