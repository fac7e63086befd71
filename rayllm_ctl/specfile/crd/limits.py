"""Sizes, ranges and shapes of single fields, as OpenAPI states them.

Everything has a limit: the API server estimates what a rule costs from the largest object that the schema admits, and
rejects a definition whose estimate is too high. The limits are far above what a spec has in practice.

What may be a secret in the wrong place has no pattern here: an error about a pattern repeats the value. It is a rule,
of which an error names the type alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.model.spec import (
    batch,
    exposure,
    gateway,
    operations,
    own_applications,
    pod_options,
    ray_options,
    security,
    serve_options,
    service,
)
from rayllm_ctl.model.spec.checks.access import ROUTED_PATH
from rayllm_ctl.model.spec.checks.engine_args import DTYPES, KV_CACHE_DTYPES
from rayllm_ctl.model.spec.checks.gateway import ORIGIN, PARAMETERS, RATE
from rayllm_ctl.model.spec.checks.pods import FIELD_PATH
from rayllm_ctl.model.spec.checks.service import MOST_ACCEPTED, MOST_REQUESTS
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.serve_options import IMPORT_PATH
from rayllm_ctl.model.spec.transformers import MOST_GPUS, TransformersOptions
from rayllm_ctl.model.text import patterns
from rayllm_ctl.specfile.crd.constraints import (
    IMAGE_REFERENCE,
    ITEMS,
    LABEL_KEY,
    LARGEST_INTEGER,
    OBJECT,
    PART,
    SET,
    Constraints,
    between,
    shape,
)
from rayllm_ctl.specfile.crd.storage_limits import STORAGE_LIMITS

_DIRECTORY: Constraints = {"maxLength": 1024, "pattern": rf"^(?:(?:{PART})+/*|/+)$"}
_MOUNT_PATH: Constraints = {"maxLength": 1024, "pattern": rf"^(?:{PART})+/*$".replace("[^/", "[^/:")}
_LABEL = shape(patterns.DNS_LABEL, 63)
_NAMESPACE = shape(patterns.DNS_LABEL, 63)
_MODEL_ID = shape(patterns.MODEL_ID, 193)
_HOST: Constraints = {"maxLength": 255, "pattern": rf"^(?:\*\.)?(?:{patterns.DNS_SUBDOMAIN.expression})$"}
_CIDR: Constraints = {"maxLength": 64, "pattern": r"^[0-9a-fA-F:.]+/[0-9]{1,3}$"}
_VARIABLE = shape(patterns.ENV_NAME, 255)
_COUNT = between(1)
_POSITIVE: Constraints = {**between(0), "exclusiveMinimum": True}
_PERCENT = between(1, 100)
_LABELS: Constraints = {"values": shape(patterns.LABEL_VALUE, 63), "maxProperties": 64}
_LONG: Constraints = {"maxLength": 262_144}
_ANNOTATIONS: Constraints = {"values": _LONG, "maxProperties": 64}
_BY_NAME: Constraints = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_FIVE_DIGITS = between(0, 99_999)

FIELD_LIMITS: Mapping[tuple[type, str], Constraints] = {
    **STORAGE_LIMITS,
    (service.LLMService, "models"): {"maxItems": 32},
    (service.LLMService, "applications"): {**_BY_NAME, "maxItems": 32},
    (service.LLMService, "worker_groups"): {**_BY_NAME, "maxItems": 16},
    (service.LLMService, "render_version"): {**shape(patterns.LABEL_VALUE, 63), "minLength": 1},
    (service.Adapter, "id"): _MODEL_ID,
    (service.Adapter, "path"): {
        "maxLength": 1024,
        "pattern": rf"^(?:(?:{PART})+/*|/+|{patterns.ADAPTER_STORE.expression})$",
    },
    (SecretKey, "name"): {"maxLength": 253},
    (SecretKey, "key"): {"maxLength": 253},
    (service.Model, "id"): _MODEL_ID,
    (service.Model, "revision"): shape(patterns.REVISION, 255),
    (service.Model, "path"): _DIRECTORY,
    (service.Model, "adapters"): {
        "maxItems": 256,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
    },
    (service.ModelEntry, "name"): _LABEL,
    (service.ModelEngine, "max_model_len"): _COUNT,
    (service.ModelEngine, "dtype"): {"enum": list(DTYPES)},
    (service.ModelEngine, "quantization"): shape(patterns.QUANTIZATION, 63),
    (service.ModelEngine, "kv_cache_dtype"): {"enum": list(KV_CACHE_DTYPES)},
    (service.ModelEngine, "gpu_memory_utilization"): {**_POSITIVE, "maximum": 1},
    (service.ModelEngine, "max_num_seqs"): _COUNT,
    (service.ModelEngine, "max_num_batched_tokens"): _COUNT,
    (service.Engine, "image"): IMAGE_REFERENCE,
    (service.Engine, "vllm_version"): shape(patterns.VERSION, 128),
    (service.Engine, "ray_version"): shape(patterns.VERSION, 128),
    (service.Engine, "env"): {"values": {"maxLength": 32_768}, "maxProperties": 256},
    (TransformersOptions, "gpus"): between(1, MOST_GPUS),
    (service.Parallelism, "tensor"): _COUNT,
    (service.Parallelism, "pipeline"): _COUNT,
    (service.Replicas, "min"): between(0),
    (service.Replicas, "max"): _COUNT,
    (service.Replicas, "count"): {"maximum": LARGEST_INTEGER},  # 0 has a message of its own
    (service.Replicas, "target_ongoing_requests"): _COUNT,
    (service.Replicas, "initial"): between(0),
    (service.Replicas, "upscaling_factor"): _POSITIVE,
    (service.Replicas, "downscaling_factor"): _POSITIVE,
    (service.Volume, "name"): _LABEL,
    (service.Volume, "mount_path"): _MOUNT_PATH,
    (service.Volume, "persistent_volume_claim"): OBJECT,
    (service.Volume, "host_path"): _DIRECTORY,
    (service.Volume, "config_map"): OBJECT,
    (service.Volume, "secret"): OBJECT,
    (service.Storage, "volumes"): {**_BY_NAME, "maxItems": 64},
    (batch.BatchStorage, "volumes"): {**_BY_NAME, "maxItems": 64},
    (service.Toleration, "key"): shape(LABEL_KEY, 317),
    (service.Toleration, "value"): shape(patterns.LABEL_VALUE, 63),
    (service.Scheduling, "node_selector"): _LABELS,
    (service.Scheduling, "ray_resources"): {"values": _POSITIVE, "maxProperties": 64},
    (service.ExtraWorkers, "name"): _LABEL,
    (service.ExtraWorkers, "min"): between(0),
    (service.ExtraWorkers, "max"): _COUNT,
    (service.ExtraWorkers, "gpus"): between(0),
    (service.ExtraWorkers, "ray_resources"): {"values": _COUNT, "maxProperties": 64},
    (service.ExtraWorkers, "node_selector"): _LABELS,
    (service.Load, "concurrency"): _COUNT,
    (service.Load, "cached_tokens"): between(0),
    (service.Load, "accepted_tokens"): {"minimum": 1, "maximum": MOST_ACCEPTED},
    (service.Load, "rate"): {**_POSITIVE, "maximum": MOST_REQUESTS},
    (exposure.Exposure, "annotations"): _ANNOTATIONS,
    (exposure.Exposure, "source_ranges"): {"items": _CIDR, "maxItems": 256},
    (exposure.Ingress, "host"): _HOST,
    (exposure.Ingress, "class_name"): OBJECT,
    (exposure.Ingress, "path"): shape(ROUTED_PATH, 1024),
    (exposure.Ingress, "tls"): OBJECT,
    (exposure.Ingress, "annotations"): _ANNOTATIONS,
    (exposure.Gateway, "name"): OBJECT,
    (exposure.Gateway, "namespace"): _NAMESPACE,
    (exposure.Gateway, "section_name"): OBJECT,
    (exposure.Gateway, "hostnames"): {"items": _HOST, "maxItems": 16},
    (exposure.Gateway, "request_timeout"): _FIVE_DIGITS,
    (gateway.Bounds, "min"): between(0),
    (gateway.Bounds, "max"): _COUNT,
    (gateway.OutputTokens, "max"): _COUNT,
    (gateway.StopSequences, "max"): between(0),
    (gateway.StopSequences, "max_length"): _COUNT,
    (gateway.Validation, "max_depth"): _COUNT,
    (gateway.Validation, "max_messages"): _COUNT,
    (gateway.Validation, "body_timeout"): between(1, 3600),
    (gateway.Validation, "parameters"): {**SET, "items": {"enum": sorted(PARAMETERS)}},
    (gateway.Cleaning, "characters"): {"maxLength": 4096},
    (gateway.Rates, "requests"): shape(RATE, 64),
    (gateway.Rates, "tokens"): shape(RATE, 64),
    (gateway.Redis, "image"): IMAGE_REFERENCE,
    (gateway.Limits, "trusted_proxies"): between(0, 16),
    (gateway.Queue, "max_pending"): _COUNT,
    (gateway.CORS, "origins"): {
        "items": {"maxLength": 1024, "pattern": rf"^(?:\*|{ORIGIN.expression})$"},
        "minItems": 1,
    },
    (operations.PodDisruptionBudget, "min_available"): _COUNT,
    (operations.Monitor, "labels"): _LABELS,
    (operations.Monitor, "interval"): {"maximum": 99_999},
    (own_applications.OwnApplication, "name"): _LABEL,
    (own_applications.OwnApplication, "deployments"): {"minItems": 1},
    (pod_options.EnvironmentVariable, "name"): _VARIABLE,
    (pod_options.EnvironmentVariable, "value"): {"maxLength": 32_768},
    (pod_options.EnvironmentSource, "prefix"): _VARIABLE,
    (pod_options.FieldOf, "field_path"): shape(FIELD_PATH, 512),
    (pod_options.KeyOf, "name"): {"maxLength": 1024},
    (pod_options.ObjectName, "name"): OBJECT,
    (pod_options.PodOptions, "service_account_name"): OBJECT,
    (pod_options.PodOptions, "priority_class_name"): OBJECT,
    (pod_options.PodOptions, "runtime_class_name"): OBJECT,
    (pod_options.PodOptions, "image_pull_secrets"): {**_BY_NAME, "maxItems": 32},
    (pod_options.PodOptions, "labels"): _LABELS,
    (pod_options.PodOptions, "annotations"): _ANNOTATIONS,
    (pod_options.PodOptions, "env"): {**_BY_NAME, "maxItems": 256},
    (ray_options.RayLogging, "backup_count"): _COUNT,
    (ray_options.RayOptions, "idle_timeout"): between(1),
    (ray_options.Upgrade, "max_surge_percent"): _PERCENT,
    (ray_options.Upgrade, "step_size_percent"): _PERCENT,
    (ray_options.Upgrade, "interval"): between(1),
    (ray_options.Upgrade, "gateway_class_name"): OBJECT,
    (security.Security, "operator_namespace"): _NAMESPACE,
    (serve_options.HTTPOptions, "keep_alive_timeout"): between(1),
    (serve_options.GRPCOptions, "port"): between(1, 65_535),
    (serve_options.GRPCOptions, "servicer_functions"): {"items": shape(IMPORT_PATH, 1024)},
    (batch.BatchModel, "id"): _MODEL_ID,
    (batch.BatchModel, "revision"): shape(patterns.REVISION, 255),
    (batch.BatchModel, "path"): _DIRECTORY,
    (batch.Input, "paths"): {**SET, "maxItems": 256},
    (batch.Input, "prompts"): {"items": {"maxLength": 921_600}, "maxItems": 100_000},
    (batch.Input, "key_column"): {"minLength": 1},
    (batch.Message, "content"): _LONG,
    (batch.Prompt, "template"): {**_LONG, "minLength": 1},
    (batch.Prompt, "column"): {"minLength": 1},
    (batch.Prompt, "system"): _LONG,
    (batch.Output, "columns"): {"values": {"minLength": 1}},
    (batch.Sampling, "max_tokens"): _COUNT,
    (batch.Sampling, "temperature"): between(0, 100),
    (batch.Sampling, "top_p"): {**_POSITIVE, "maximum": 1},
    (batch.Sampling, "top_k"): between(-1),
    (batch.Sampling, "seed"): {"maximum": None},
    (batch.Sampling, "columns"): {"values": {"minLength": 1}},
    (batch.BatchJob, "cluster"): OBJECT,
    (batch.Concurrency, "min"): _COUNT,
    (batch.Concurrency, "max"): _COUNT,
    (batch.Job, "max_errors"): between(0),
    (batch.Job, "part_rows"): _COUNT,
    (batch.Job, "batch_size"): _COUNT,
    (batch.Job, "retries"): between(0),
    (batch.Job, "deadline"): between(1),
    (batch.BatchLoad, "rows"): _COUNT,
}
"""By the class and the field of the model that have them. items: of the items of a list; values: of those of a mapping.
None: without a limit that such fields have otherwise."""


_SELECTOR: Constraints = {
    "type": "object",
    "properties": {
        "matchLabels": {
            "type": "object",
            "additionalProperties": {"type": "string", **shape(patterns.LABEL_VALUE, 63)},
            "maxProperties": 64,
        },
        "matchExpressions": {
            "type": "array",
            "maxItems": ITEMS,
            "items": {
                "type": "object",
                "properties": {
                    "key": {"type": "string", **shape(LABEL_KEY, 317)},
                    "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": {
                        "type": "array",
                        "items": {"type": "string", **shape(patterns.LABEL_VALUE, 63)},
                        "maxItems": ITEMS,
                    },
                },
                "required": ["key", "operator"],
                "x-kubernetes-validations": [
                    {
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                        "message": "In and NotIn require values, Exists and DoesNotExist take none",
                        "fieldPath": ".values",
                    }
                ],
            },
        },
    },
}
_IP_BLOCK: Constraints = {
    "type": "object",
    "properties": {
        "cidr": {"type": "string", **_CIDR},
        "except": {"type": "array", "items": {"type": "string", **_CIDR}, "maxItems": ITEMS},
    },
    "required": ["cidr"],
}

SHAPES: Mapping[tuple[type, str], Constraints] = {
    (security.NetworkPeer, "pod_selector"): _SELECTOR,
    (security.NetworkPeer, "namespace_selector"): _SELECTOR,
    (security.NetworkPeer, "ip_block"): _IP_BLOCK,
}
"""The schemas of mappings whose keys the annotations do not tell."""


def limits_of(section: type, name: str) -> Constraints:
    """The limits of a field, which may be stated for a class that `section` extends."""
    return next((FIELD_LIMITS[one, name] for one in section.__mro__ if (one, name) in FIELD_LIMITS), {})
