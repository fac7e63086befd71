"""What makes a bare cluster useful: DNS, the KubeRay operator with CRDs and shipped rights, kube-router's rights."""

from __future__ import annotations

import concurrent.futures
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster import cache, images, layout, modules
from e2e.cluster.api import Api

OPERATOR_NAMESPACE: Final = "kuberay-system"
DEPLOYMENTS: Final = (("kube-system", "coredns"), (OPERATOR_NAMESPACE, "kuberay-operator"))

_MANIFESTS: Final = Path(__file__).parent / "manifests"
_NAMESPACED: Final = frozenset({"ServiceAccount", "Role", "RoleBinding"})
# The loader in C where PyYAML has it: ten times faster.
_FastLoader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CRD_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(api: Api, *, network_policies: bool) -> None:
    """Apply all of it, kube-router's rights where it enforces policies; the pods start when nodes are there."""
    for manifest in (*(kube_router() if network_policies else ()), *coredns()):
        api.apply(manifest)
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(api.create, _CRD_PATH, crd.read_text()) for crd in _crds()]:
            done.result()
    for manifest in (*operator_rbac(_kuberay() / "config/rbac"), *operator()):
        api.apply(manifest)


def ready(api: Api) -> bool:
    """Whether every deployment of the add-ons has its pods available."""
    for namespace, name in DEPLOYMENTS:
        deployment = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        if deployment is None or not deployment.get("status", {}).get("availableReplicas"):
            return False
    return True


def operator_rbac(directory: Path) -> Iterator[dict[str, Any]]:
    """The manifests of the kustomization in `directory`, moved into the operator's namespace as kustomize would."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    for file in kustomization["resources"]:
        for manifest in yaml.safe_load_all((directory / file).read_text()):
            if manifest["kind"] in _NAMESPACED:
                manifest["metadata"]["namespace"] = OPERATOR_NAMESPACE
            for subject in manifest.get("subjects", []):
                subject["namespace"] = OPERATOR_NAMESPACE
            yield manifest


def coredns() -> list[dict[str, Any]]:
    """The manifests of CoreDNS."""
    values = {"image": images.COREDNS, "address": layout.DNS_ADDRESS, "cluster_domain": layout.CLUSTER_DOMAIN}
    return _filled("coredns.yaml", values)


def kube_router() -> list[dict[str, Any]]:
    """The rights of kube-router, which runs as a process of each node."""
    return _filled("kube-router.yaml", {})


def operator() -> list[dict[str, Any]]:
    """The manifest of the operator's deployment."""
    return _filled("kuberay-operator.yaml", {"image": images.KUBERAY_OPERATOR, "namespace": OPERATOR_NAMESPACE})


def _filled(name: str, values: dict[str, str]) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(string.Template((_MANIFESTS / name).read_text()).substitute(values)))


def _kuberay() -> Path:
    return cache.entry("build", modules.KUBERAY.key)


def _crds() -> list[Path]:
    """KubeRay's CRDs as JSON, which takes the API server a third less time to read than their megabytes of YAML."""

    def make(out: Path) -> None:
        for file in (_kuberay() / "config/crd/bases").glob("*.yaml"):
            (out / f"{file.stem}.json").write_text(json.dumps(yaml.load(file.read_text(), _FastLoader)))

    return sorted(cache.ensure("crd", modules.KUBERAY.key, make).glob("*.json"))
