"""Rules of the sections around the models, in CEL: access, gateway, pods, Ray and Serve."""

from __future__ import annotations

from rayllm_ctl.model.kube.labels import SERVICE, service_labels
from rayllm_ctl.model.spec import (
    exposure,
    gateway,
    operations,
    own_applications,
    pod_options,
    ray_options,
    security,
    serve_options,
)
from rayllm_ctl.model.spec.checks.engine_args import RESERVED_ENV
from rayllm_ctl.model.spec.ray_options import INCREMENTAL
from rayllm_ctl.model.text import patterns
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules, count_of, has, unless, value
from rayllm_ctl.specfile.crd.shapes import (
    POSITIVE,
    WHOLE_SECONDS,
    given_name,
    keys,
    matches,
    matches_data_key,
    matches_object_name,
)

TOKENS = "['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN']"
RESERVED_NAMES = ", ".join(f"'{name}'" for name in sorted(RESERVED_ENV))
_STEPS = ("maxSurgePercent", "stepSizePercent", "interval", "gatewayClassName")
_STRATEGY = value("strategy", "'NewCluster'")
_RESERVED = "key.startsWith('ray.io/') || key.startsWith('rayllm.io/')"
ONE_SOURCE = "must have exactly one source"

SURROUNDINGS: CelRules = {
    (exposure.Exposure, "annotations"): (keys("annotation"),),
    (exposure.Ingress, "annotations"): (keys("annotation"),),
    (operations.Monitor, "labels"): (
        keys("label"),
        CelRule(
            f"![{', '.join(map(repr, sorted((*service_labels('', ''), SERVICE))))}].exists(key, key in self)",
            "has a key that is reserved: rayllm-ctl sets such labels itself",
        ),
    ),
    (pod_options.PodOptions, "labels"): (
        keys("label"),
        CelRule(
            f"!self.exists(key, {_RESERVED} || key in ['app.kubernetes.io/name', 'app.kubernetes.io/created-by'])",
            "has a key that is reserved for KubeRay and rayllm-ctl",
        ),
    ),
    (pod_options.PodOptions, "annotations"): (
        keys("annotation"),
        CelRule(f"!self.exists(key, {_RESERVED})", "has a key that is reserved for KubeRay and rayllm-ctl"),
    ),
    (operations.Monitor, "interval"): (POSITIVE,),
    exposure.Exposure: (
        CelRule(
            unless(f"{value('type', repr('ClusterIP'))} != 'LoadBalancer'", "sourceRanges[]"),
            "requires type: LoadBalancer",
            ".sourceRanges",
        ),
    ),
    gateway.Bounds: (
        CelRule("!has(self.min) || !has(self.max) || self.min <= self.max", "is greater than max", ".min"),
    ),
    gateway.OutputTokens: (
        CelRule(
            f"{value('exceeding', repr('clamp'))} != 'reject' || has(self.max)",
            "reject has no effect without max",
            ".exceeding",
        ),
    ),
    (gateway.Validation, "body_timeout"): (POSITIVE,),
    (gateway.Validation, "max_body_bytes"): (POSITIVE,),
    gateway.Cleaning: (
        CelRule(
            "!has(self.remove) || size(self.remove) > 0 || (has(self.characters) && self.characters != '') || "
            "has(self.normalization)",
            "has no effect: it removes nothing and normalizes nothing",
        ),
    ),
    gateway.Keys: (given_name("secret", "expected the name of a Secret: lower-case letters, digits, '-' and '.'"),),
    gateway.Redis: (
        CelRule(f"{value('managed', 'false')} != has(self.url)", "expected either url or managed: true"),
        CelRule(
            f"!has(self.url) || {matches('self.url', patterns.REDIS_URL)}",
            "is not a valid URL, such as redis://redis:6379/0 or rediss://redis.example.com:6380 (without credentials)",
            ".url",
        ),
        CelRule(f"{value('managed', 'false')} || !has(self.image)", "has no effect without managed: true", ".image"),
    ),
    gateway.Limits: (
        CelRule(
            f"{value('onRedisFailure', repr('allow'))} == 'allow' || has(self.redis)",
            "has no effect without redis",
            ".onRedisFailure",
        ),
    ),
    gateway.Gateway: (
        CelRule(
            unless("!has(self.keys)", "limits.perKey.requests", "limits.perKey.tokens"),
            "requires spec.gateway.keys",
            ".limits.perKey",
        ),
        CelRule(
            f"!has(self.limits) || has(self.keys) || {has('limits.perAddress.requests')} || "
            f"{has('limits.perAddress.tokens')}",
            "has no effect: nothing is limited",
            ".limits",
        ),
    ),
    operations.Monitoring: (
        CelRule(
            "!has(self.podMonitor) || !has(self.serviceMonitor)",
            "podMonitor and serviceMonitor cannot be combined: every pod would be scraped twice",
        ),
    ),
    own_applications.OwnApplication: (
        CelRule(
            "!has(self.code)",
            "names a directory next to the spec file, which the controller does not have: only the command line reads "
            "it; put the code into the image",
            ".code",
        ),
        CelRule(
            "!has(self.routePrefix) || (self.routePrefix != '/' && !(self.routePrefix in ['/v1', '/-']) && "
            "!self.routePrefix.startsWith('/v1/') && !self.routePrefix.startsWith('/-/'))",
            "is reserved for the models and for Serve itself",
            ".routePrefix",
        ),
    ),
    pod_options.EnvironmentVariable: (
        CelRule("has(self.value) != has(self.valueFrom)", "must have either value or valueFrom"),
        CelRule(
            f"!(self.name in [{RESERVED_NAMES}])",
            "cannot be set: KubeRay sets it, or it contradicts the manifests",
            ".name",
        ),
        CelRule(
            f"!has(self.value) || !(self.name in {TOKENS})",
            "a token must be in a Secret: spec.model.tokenSecret",
            ".value",
        ),
    ),
    pod_options.ValueFrom: (
        CelRule(
            f"{count_of(('secretKeyRef', 'configMapKeyRef', 'fieldRef'))} == 1",
            f"{ONE_SOURCE} (secretKeyRef, configMapKeyRef, fieldRef)",
        ),
    ),
    pod_options.KeyOf: (
        CelRule(matches_object_name("self.name"), "expected the name of an object, not its content", ".name"),
        CelRule(matches_data_key("self.key"), "expected a key of the object, not its value", ".key"),
    ),
    pod_options.AllOf: (
        CelRule(matches_object_name("self.name"), "expected the name of an object, not its content", ".name"),
    ),
    pod_options.EnvironmentSource: (
        CelRule(f"{count_of(('secretRef', 'configMapRef'))} == 1", f"{ONE_SOURCE} (secretRef, configMapRef)"),
    ),
    ray_options.Authentication: (
        CelRule(
            unless(f"{value('mode', repr('token'))} == 'none'", "secretName"),
            "has no effect without mode: token",
            ".secretName",
        ),
        given_name("secretName", "is not a valid name of a Secret"),
    ),
    ray_options.FaultTolerance: (
        CelRule(
            matches("self.redisAddress", patterns.REDIS_ADDRESS),
            "is not a valid address, such as redis:6379 or rediss://redis.example.com:6380 (without credentials)",
            ".redisAddress",
        ),
    ),
    (ray_options.RayLogging, "rotate_bytes"): (POSITIVE,),
    (ray_options.RayOptions, "idle_timeout"): (POSITIVE, WHOLE_SECONDS),
    (ray_options.Upgrade, "interval"): (POSITIVE, WHOLE_SECONDS),
    (ray_options.Upgrade, "deletion_delay"): (WHOLE_SECONDS,),
    ray_options.Upgrade: (
        CelRule(
            unless(f"{_STRATEGY} != '{INCREMENTAL}'", *_STEPS),
            f"{', '.join(_STEPS)} have no effect but with strategy {INCREMENTAL}",
        ),
        CelRule(
            f"{_STRATEGY} != '{INCREMENTAL}' || ({' && '.join(f'has(self.{step})' for step in _STEPS[1:])})",
            f"{', '.join(_STEPS[1:])} are required with strategy {INCREMENTAL}",
        ),
    ),
    security.NetworkPeer: (
        CelRule(
            f"{count_of(('podSelector', 'namespaceSelector', 'ipBlock'))} > 0",
            "must have podSelector, namespaceSelector or ipBlock",
        ),
        CelRule(
            unless(has("ipBlock"), "podSelector", "namespaceSelector"),
            "cannot be combined with podSelector and namespaceSelector",
            ".ipBlock",
        ),
    ),
    security.Security: (
        CelRule(
            unless(
                f"{value('network', repr('open'))} != 'restricted'",
                "allowFrom[]",
                "allowDashboardFrom[]",
                "allowMetricsFrom[]",
            ),
            "allowFrom, allowDashboardFrom and allowMetricsFrom require network: restricted",
        ),
    ),
    (serve_options.HTTPOptions, "request_timeout"): (POSITIVE,),
    (serve_options.HTTPOptions, "keep_alive_timeout"): (POSITIVE, WHOLE_SECONDS),
    (serve_options.GRPCOptions, "request_timeout"): (POSITIVE,),
    serve_options.GRPCOptions: (
        CelRule(
            "(!has(self.port) && !has(self.requestTimeout)) || "
            "(has(self.servicerFunctions) && size(self.servicerFunctions) > 0)",
            "has no effect without servicerFunctions: Ray then starts no gRPC server",
        ),
        CelRule(
            f"!has(self.port) || !(self.port in [8000, {', '.join(map(str, serve_options.TAKEN_PORTS))}])",
            "is the port of another server of Ray pods",
            ".port",
        ),
    ),
}
