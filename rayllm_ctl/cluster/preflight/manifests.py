"""Requirements of the objects next to a service beyond Kubernetes and KubeRay. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.preflight.versions import kuberay_version
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.api_kinds import kind_of
from rayllm_ctl.model.kube.kuberay import OPERATOR_SELECTOR
from rayllm_ctl.model.kube.kuberay_versions import parse_version
from rayllm_ctl.model.spec.ray_options import INCREMENTAL

_INSTALL: Mapping[str, str] = {
    "gateway.networking.k8s.io": (
        "kubectl apply --server-side -f "
        "https://github.com/kubernetes-sigs/gateway-api/releases/latest/download/standard-install.yaml"
    ),
    "monitoring.coreos.com": (
        "helm install kube-prometheus-stack kube-prometheus-stack "
        "--repo https://prometheus-community.github.io/helm-charts -n monitoring --create-namespace"
    ),
}
"""Commands that install optional API groups, from their documentation."""

_GATE = "RayServiceIncrementalUpgrade"
"""KubeRay's feature gate of incremental upgrades: off by default before 1.7 (ray-operator/pkg/features)."""


def require_kinds(cluster: Cluster, manifests: Sequence[Mapping[str, Any]], namespace: str) -> None:
    """Raise UserError for the first kind that the cluster does not serve."""
    for manifest in manifests:
        resource = kind_of(manifest)
        if resource.group not in _INSTALL:
            continue
        try:
            cluster.get(resource.name, manifest["metadata"]["name"], namespace)
        except NotFoundError as error:
            if not error.about:
                raise UserError(
                    f"the cluster does not serve {resource.resource} ({resource.api_version})",
                    hint=_INSTALL[resource.group],
                ) from error
        except ForbiddenError:
            continue  # reported by the permission check


def check_operator_namespace(cluster: Cluster, admitted: str) -> Iterator[Checked]:
    """Check that the KubeRay operator runs in the namespace from which a NetworkPolicy admits it; UserError if not."""
    try:
        operators = cluster.list("Deployment", label_selector=OPERATOR_SELECTOR)
    except ForbiddenError:
        yield Checked("network", None, f"the NetworkPolicy admits a KubeRay operator in namespace {admitted} only")
        return
    namespaces = sorted({operator["metadata"]["namespace"] for operator in operators})
    if namespaces and admitted not in namespaces:
        raise UserError(
            f"the KubeRay operator runs in namespace {namespaces[0]}, but the NetworkPolicy admits it from {admitted}",
            hint=f"set spec.security.operatorNamespace: {namespaces[0]}",
        )


def check_incremental_upgrade(cluster: Cluster, manifest: Mapping[str, Any]) -> Iterator[Checked]:
    """Check that the cluster supports incremental upgrades, if the manifest uses them.

    Raises UserError without the Gateway API or the GatewayClass. Before 1.7 KubeRay ignores the strategy while its
    feature gate is off: the service runs, but no change of the Ray cluster is rolled out.
    """
    strategy = (manifest.get("spec") or {}).get("upgradeStrategy") or {}
    if strategy.get("type") != INCREMENTAL:
        return
    wanted = str(strategy["clusterUpgradeOptions"]["gatewayClassName"])
    name = "incremental upgrade"
    try:
        cluster.get("GatewayClass", wanted)
    except NotFoundError as error:
        if not error.about:
            raise UserError(
                f"{INCREMENTAL} needs the Gateway API, and the cluster does not serve gatewayclasses",
                hint=_INSTALL["gateway.networking.k8s.io"],
            ) from error
        raise UserError(
            f"there is no GatewayClass {wanted}, which KubeRay uses for the Gateway of {INCREMENTAL}",
            hint="kubectl get gatewayclasses",
        ) from error
    except ForbiddenError as error:
        yield Checked(name, None, f"GatewayClass {wanted} was not checked: not permitted to {error.right}")
    try:
        operators = cluster.list("Deployment", label_selector=OPERATOR_SELECTOR)
    except ForbiddenError:
        return  # reported with the version of KubeRay
    if operators and not any(_gated(operator) for operator in operators):
        version = kuberay_version(cluster)
        if version is not None and parse_version(version) < (1, 7):
            yield Checked(name, None, f"KubeRay {version} runs without --feature-gates={_GATE}=true: without it "
                          "no change that needs another Ray cluster is rolled out")  # fmt: skip


def _gated(operator: Mapping[str, Any]) -> bool:
    """Whether the command line of an operator enables the feature gate."""
    containers = operator["spec"]["template"]["spec"]["containers"]
    words = [
        str(word) for container in containers for field in ("command", "args") for word in container.get(field) or ()
    ]
    return any(f"{_GATE}=true" in word for word in words)
