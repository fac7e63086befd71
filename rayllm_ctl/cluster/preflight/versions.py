"""Versions of the cluster's components."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.model.kube.kuberay import OPERATOR_SELECTOR

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[\w.]+)?)")


def server_version(cluster: Cluster) -> str:
    """The version of the API server, such as v1.36.2."""
    return cluster.server_version()


def kuberay_version(cluster: Cluster) -> str | None:
    """The version of the KubeRay operator, without a leading v; None if it is not installed or cannot be listed.

    It is the tag of the operator's image, else (latest, a digest) from the labels of its Helm chart.
    """
    return version_of(operators(cluster) or ())


def operators(cluster: Cluster) -> list[dict[str, Any]] | None:
    """The Deployments of KubeRay operators; None if they may not be listed."""
    try:
        return cluster.list("Deployment", label_selector=OPERATOR_SELECTOR)
    except ForbiddenError:
        return None


def version_of(deployments: Iterable[Mapping[str, Any]]) -> str | None:
    """The version of the first operator whose version is known."""
    for deployment in deployments:
        version = _of_image(deployment) or _of_label(deployment)
        if version:
            return version
    return None


def _of_image(deployment: Mapping[str, Any]) -> str | None:
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        tag = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[2]
        match = _VERSION.fullmatch(tag)
        if match:
            return match[1]
    return None


def _of_label(deployment: Mapping[str, Any]) -> str | None:
    labels = deployment["metadata"].get("labels") or {}
    for text in (labels.get("app.kubernetes.io/version", ""), labels.get("helm.sh/chart", "").rpartition("-")[2]):
        match = _VERSION.fullmatch(str(text))
        if match:
            return match[1]
    return None
