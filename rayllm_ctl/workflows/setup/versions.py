"""Versions of rayllm-ctl, the cluster and KubeRay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl import __version__
from rayllm_ctl.cluster.preflight.versions import kuberay_version, server_version
from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Versions:
    """`kuberay` is None if the operator is not installed, or listing it is not permitted."""

    rayllm_ctl: str
    kubernetes: str | None = None
    kuberay: str | None = None
    tested_kuberay: tuple[str, ...] = ("1.6.2",)


def tool_versions(cluster: Cluster | None) -> Versions:
    """All three versions, or only that of rayllm-ctl without a cluster."""
    if cluster is None:
        return Versions(__version__)
    return Versions(__version__, server_version(cluster), kuberay_version(cluster))
