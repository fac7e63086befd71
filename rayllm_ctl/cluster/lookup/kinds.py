"""Discovery of kinds that the table of model.kube.api_kinds does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.api_kinds import Kind, add_kind, other_kinds, table_name


def require_other_kinds(cluster: Cluster, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Add the kinds of `manifests` to the table; UserError for the first that the cluster does not serve."""
    wanted = other_kinds(manifests)
    served = _discover(cluster, wanted)
    for api_version, name in wanted:
        if (api_version, name) not in served:
            meant = table_name(name)
            raise UserError(
                f"the cluster does not serve {name} of {api_version}",
                hint=f"did you mean {meant}?" if meant else "install its CustomResourceDefinition",
            )


def learn_other_kinds(cluster: Cluster, applied: Iterable[Mapping[str, Any]]) -> None:
    """Add the kinds applied for a service to the table. Kinds that the cluster no longer serves have no objects."""
    _discover(cluster, other_kinds(applied))


def _discover(cluster: Cluster, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Add the kinds of `wanted` that the cluster serves, with one request per API version."""
    served = set()
    for api_version in dict.fromkeys(version for version, _ in wanted):
        group, _, version = api_version.rpartition("/")
        try:
            answer = cluster.request_json(
                "GET", f"/apis/{api_version}" if group else f"/api/{version}", doing=f"list the kinds of {api_version}"
            )
        except NotFoundError:
            continue
        for resource in answer.get("resources") or ():
            pair = (api_version, str(resource["kind"]))
            if pair in wanted and "/" not in resource["name"]:  # no subresource
                add_kind(Kind(group, version, pair[1], str(resource["name"]), bool(resource["namespaced"])))
                served.add(pair)
    return served
