"""The kinds of objects that are read and written, and their REST paths: a table instead of a discovery request.

Kinds that only a user's templates have, such as KEDA's ScaledObject, are looked up in the cluster and added here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import OTHER_KINDS
from rayllm_ctl.model.kube.names import nearest


@dataclass(frozen=True)
class Kind:
    """One kind as the API serves it. `group` is empty for the core API."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The resource with its group, as `kubectl` takes it: rayservices.ray.io, pods."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The REST path of one object, or of the collection when `name` is None.

        A namespaced kind without `namespace` is the collection of all namespaces.
        """
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        # A service proxy names its port after a colon (svc:dashboard), which the API server wants unescaped.
        parts += [quote(part, safe=":") for part in (name, subresource) if part]
        return "/".join(parts)


def _table(*rows: tuple[str, str, str, str]) -> dict[tuple[str, str], Kind]:
    kinds = {}
    for api_version, name, plural, scope in rows:
        group, _, version = api_version.rpartition("/")
        kinds[api_version, name] = Kind(group, version, name, plural, scope == "ns")
    return kinds


KINDS: Mapping[tuple[str, str], Kind] = _table(
    ("ray.io/v1", "RayService", "rayservices", "ns"),
    ("ray.io/v1", "RayCluster", "rayclusters", "ns"),
    ("ray.io/v1", "RayJob", "rayjobs", "ns"),
    ("rayllm.io/v1alpha1", "LLMService", "llmservices", "ns"),
    ("rayllm.io/v1alpha1", "BatchJob", "batchjobs", "ns"),
    ("v1", "Namespace", "namespaces", "cluster"),
    ("v1", "Node", "nodes", "cluster"),
    ("v1", "PersistentVolume", "persistentvolumes", "cluster"),
    ("v1", "Pod", "pods", "ns"),
    ("v1", "Service", "services", "ns"),
    ("v1", "ServiceAccount", "serviceaccounts", "ns"),
    ("v1", "ConfigMap", "configmaps", "ns"),
    ("v1", "Secret", "secrets", "ns"),
    ("v1", "Event", "events", "ns"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "ns"),
    ("v1", "ResourceQuota", "resourcequotas", "ns"),
    ("v1", "LimitRange", "limitranges", "ns"),
    ("apps/v1", "Deployment", "deployments", "ns"),
    ("apps/v1", "StatefulSet", "statefulsets", "ns"),
    ("apps/v1", "DaemonSet", "daemonsets", "ns"),
    ("apps/v1", "ControllerRevision", "controllerrevisions", "ns"),
    ("batch/v1", "Job", "jobs", "ns"),
    ("batch/v1", "CronJob", "cronjobs", "ns"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "ns"),
    ("coordination.k8s.io/v1", "Lease", "leases", "ns"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "ns"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "ns"),
    ("networking.k8s.io/v1", "Ingress", "ingresses", "ns"),
    ("networking.k8s.io/v1", "IngressClass", "ingressclasses", "cluster"),
    ("gateway.networking.k8s.io/v1", "GatewayClass", "gatewayclasses", "cluster"),
    ("gateway.networking.k8s.io/v1", "Gateway", "gateways", "ns"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", "ns"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", "ns"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "ns"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "cluster"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "cluster"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "cluster"),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "cluster"),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", "cluster"),
    ("storage.k8s.io/v1", "CSIDriver", "csidrivers", "cluster"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "ns"),
    ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", "cluster"),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "cluster"),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", "cluster"),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", "ns"),
    ("monitoring.coreos.com/v1", "PodMonitor", "podmonitors", "ns"),
    ("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules", "ns"),
)

APPLIED = (
    "RayService", "RayCluster", "RayJob", "Service", "Ingress", "HTTPRoute", "NetworkPolicy", "PodDisruptionBudget",
    "Deployment", "Job", "ServiceMonitor", "PodMonitor", "PrometheusRule", "RoleBinding", "Role", "ServiceAccount",
    "ConfigMap",
)  # fmt: skip
"""Kinds that are deleted with a service, dependencies last. Never here: namespaces, Secrets, claims (data)."""

_BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS.values()}

_ADDED: dict[str, Kind] = {}
"""Kinds beyond the table, by name. They are those of one cluster: a process talks to no other."""


def add_kind(found: Kind) -> None:
    """Add a kind that the cluster serves."""
    _ADDED[found.name] = found


def applied_kinds() -> tuple[str, ...]:
    """APPLIED, and before it what was added: it may depend on anything."""
    return (*(name for name, what in _ADDED.items() if what.namespaced), *APPLIED)


def other_kinds(manifests: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The apiVersion and kind of each manifest that is not of the table, and those that a service's annotation names.

    What the table has under another apiVersion is not among them: `kind_of` rejects it.
    """
    found: dict[tuple[str, str], None] = {}
    for item in manifests:
        named = str(((item.get("metadata") or {}).get("annotations") or {}).get(OTHER_KINDS, ""))
        pairs = [(version, name) for version, _, name in (entry.rpartition("/") for entry in named.split(","))]
        pairs.append((str(item.get("apiVersion") or ""), str(item.get("kind") or "")))
        found |= dict.fromkeys((version, name) for version, name in pairs if version and name and name not in _BY_NAME)
    return list(found)


def kind(name: str) -> Kind:
    """The kind called `name` ("RayService"). KeyError if neither the table has it nor the cluster was asked for it."""
    return _BY_NAME.get(name) or _ADDED[name]


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a manifest. UserError if it names none, or one that is not known."""
    api_version, name = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
    found = KINDS.get((api_version, name)) or _ADDED.get(name)
    if found and found.api_version == api_version:
        return found
    if not (api_version and name):
        raise UserError("a manifest has no apiVersion or no kind", hint="every Kubernetes object needs both")
    meant = table_name(name)
    hint = f"did you mean {meant}?" if meant else f"use kubectl apply for {name} objects"
    raise UserError(f"{name} of {api_version} is not a kind that rayllm-ctl applies", hint=hint)


def table_name(name: str) -> str:
    """The kind of the table that `name` may stand for, as in `Deployment of apps/v1`; empty if there is none."""
    meant = _BY_NAME.get(name) or _BY_NAME.get(nearest(name, _BY_NAME) or "")
    return f"{meant.name} of {meant.api_version}" if meant else ""


def label(what: Kind, name: str | None, namespace: str | None) -> str:
    """An object, or a collection, in a message: `RayService llm/qwen`, `Pods in namespace llm`."""
    if name:
        return f"{what.name} {f'{namespace}/' if what.namespaced and namespace else ''}{name}"
    if not what.namespaced:
        return what.plural
    return f"{what.plural} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
