"""What the objects next to a service need of the cluster beyond Kubernetes and KubeRay. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import ForbiddenError, NotFoundError
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.apikinds import kind_of
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kuberay import OPERATOR_SELECTOR

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
"""How the API groups that not every cluster has are installed, per their documentation."""


def require_kinds(cluster: Cluster, manifests: Sequence[Mapping[str, Any]], namespace: str) -> None:
    """Raise UserError for the first kind that the cluster does not serve."""
    for manifest in manifests:
        what = kind_of(manifest)
        if what.group not in _INSTALL:
            continue
        try:
            cluster.get(what.name, manifest["metadata"]["name"], namespace)
        except NotFoundError as error:
            if not error.about:
                raise UserError(
                    f"the cluster does not serve {what.resource} ({what.api_version})", hint=_INSTALL[what.group]
                ) from error
        except ForbiddenError:
            continue  # the rights say it completely


def check_operator_namespace(cluster: Cluster, admitted: str) -> Iterator[Checked]:
    """Whether the KubeRay operator runs in the namespace from which a NetworkPolicy admits it; UserError if not."""
    try:
        operators = cluster.list("Deployment", label_selector=OPERATOR_SELECTOR)
    except ForbiddenError:
        yield Checked("network", None, f"the NetworkPolicy admits a KubeRay operator in namespace {admitted} only")
        return
    found = sorted({item["metadata"]["namespace"] for item in operators})
    if found and admitted not in found:
        raise UserError(
            f"the KubeRay operator runs in namespace {found[0]}, and the NetworkPolicy would admit it from {admitted}",
            hint=f"set spec.security.operatorNamespace: {found[0]}",
        )
