"""Server-side apply: its result for each object, and conflicts with other field managers.

Conflicts are forced only where the user opted in, and unknown fields are rejected rather than dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import INSTALL_KUBERAY, ApiError, NotFoundError
from rayllm_ctl.errors import ConflictError, FieldConflictError, UserError
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.kube.api_kinds import Kind, kind_of, label
from rayllm_ctl.model.kube.content import content
from rayllm_ctl.model.kube.kuberay import GROUP_NAME
from rayllm_ctl.model.kube.labels import MANAGER

_ORDER = (
    ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass"),
    ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    ("ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange"),
)
"""The order of kinds: objects that others need come first; other kinds are workloads and come last."""

KnownObjects = Mapping[tuple[str, str], dict[str, Any] | None]
"""Objects by kind and name, as they were read; None: there is none."""

_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"|: \.?([^\s:]+): field not declared in schema')
_MANAGER = re.compile(r'conflicts? with "(?P<manager>[^"]+)"(?: with subresource "(?P<subresource>[^"]+)")?')


def apply(
    cluster: Cluster,
    manifests: Sequence[Mapping[str, Any]],
    *,
    dry_run: Literal["none", "server"] = "none",
    force_conflicts: bool = False,
    field_manager: str = MANAGER,
    unchanged: Mapping[str, int] | None = None,
    known: KnownObjects = MappingProxyType({}),
) -> Iterator[tuple[Applied, dict[str, Any]]]:
    """Apply `manifests` in the required order; yield the result for each, and the object as stored.

    A manifest without a namespace goes to the cluster's default one. dry_run "server": everything is checked, nothing
    is written. unchanged: by kind, the metadata.generation that an object must still have. known: objects that were
    read a moment ago, and are not read again. Raises ConflictError (it has another one, or another manager owns a field
    that would change) and UserError for what the API server rejects; objects before the rejected one stay applied, and
    a second run continues from there.
    """
    dry = dry_run == "server"
    for manifest in sorted(manifests, key=_rank):
        generation = (unchanged or {}).get(str(manifest.get("kind")))
        before, after, created = _patch(cluster, manifest, dry, force_conflicts, field_manager, known, generation)
        if created:
            action = "created"
        else:
            action = "unchanged" if before is not None and content(before) == content(after) else "configured"
        metadata = after["metadata"]
        yield Applied(str(manifest["kind"]), metadata["name"], metadata.get("namespace", ""), action, dry), after


def would_apply(
    cluster: Cluster,
    manifests: Sequence[Mapping[str, Any]],
    *,
    force_conflicts: bool = False,
    field_manager: str = MANAGER,
    known: KnownObjects = MappingProxyType({}),
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Each object as stored (None: it does not exist) and after `apply`; nothing is written.

    In the order of `apply`, with the same errors. known: as for `apply`.
    """
    for manifest in sorted(manifests, key=_rank):
        before, after, _ = _patch(cluster, manifest, True, force_conflicts, field_manager, known)
        yield before, after


def _rank(manifest: Mapping[str, Any]) -> int:
    return next((rank for rank, kinds in enumerate(_ORDER) if manifest.get("kind") in kinds), len(_ORDER))


def _patch(
    cluster: Cluster,
    manifest: Mapping[str, Any],
    dry: bool,
    force_conflicts: bool,
    field_manager: str,
    known: KnownObjects,
    generation: int | None = None,
) -> tuple[dict[str, Any] | None, dict[str, Any], bool]:
    """The object before and after the apply of `manifest`, and whether that created it."""
    what = kind_of(manifest)
    metadata = manifest.get("metadata") or {}
    name = str(metadata.get("name") or "")
    if not name:
        raise UserError(f"a {what.name} manifest has no metadata.name", hint="applied objects need a name")
    namespace = str(metadata.get("namespace") or cluster.namespace) if what.namespaced else None

    query = [("fieldManager", field_manager), ("fieldValidation", "Strict"), ("force", str(force_conflicts).lower())]
    query += [("dryRun", "All")] if dry else []
    try:
        key = (what.name, name)
        before = known[key] if key in known else _before(cluster, what, name, namespace)
        if generation is not None:
            manifest = _only_if(before, manifest, generation, label(what, name, namespace))
        after, created = cluster.patch(
            what.name, name, namespace, manifest, content_type="application/apply-patch+yaml", query=query
        )
    except ApiError as error:
        raise _explained(error, what, name, namespace) from error
    return before, after, created


def _only_if(
    before: Mapping[str, Any] | None, manifest: Mapping[str, Any], generation: int, shown: str
) -> dict[str, Any]:
    """`manifest` with a resourceVersion, so that the API server rejects it if the object changes again.

    The generation is compared first: a new status changes the resourceVersion, but is not a change of the spec.
    """
    if before is None or before["metadata"].get("generation") != generation:
        raise ConflictError(f"{shown} changed in the meantime", hint="run the command again")
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": before["metadata"]["resourceVersion"]}}


def _before(cluster: Cluster, what: Kind, name: str, namespace: str | None) -> dict[str, Any] | None:
    try:
        return cluster.get(what.name, name, namespace)
    except NotFoundError as error:
        if error.about:
            return None
        raise


def _explained(error: ApiError, what: Kind, name: str, namespace: str | None) -> UserError:
    shown = label(what, name, namespace)
    if error.status == 404:
        return _missing(error, what, shown, namespace)
    if error.status == 409:
        return _conflict(error, shown)
    fields = sorted({first or second for first, second in _UNKNOWN_FIELD.findall(error.message)})
    if fields:
        return UserError(
            f"{shown} has unknown fields: {', '.join(fields)}",
            hint=(
                "a field may be misspelled, or newer than the cluster's version",
                f"kubectl explain {what.resource} --recursive",
            ),
        )  # fmt: skip
    if error.status == 422 and error.causes:
        problems = [f"{cause.get('field', '?')}: {cause.get('message', '')}".rstrip(": ") for cause in error.causes]
        return UserError("\n  ".join([f"{shown} is not valid:", *problems]), hint="nothing of this object was applied")
    return error


def _missing(error: ApiError, what: Kind, shown: str, namespace: str | None) -> UserError:
    if error.about == "namespaces":
        return UserError(
            f"namespace {namespace} does not exist ({shown})",
            hint=f"kubectl create namespace {namespace}",
        )
    if what.group == GROUP_NAME:
        return UserError(
            f"the cluster does not serve {what.resource}: KubeRay is not installed", hint=INSTALL_KUBERAY, exit_code=1
        )
    return UserError(
        f"the cluster does not serve {what.resource} ({what.api_version})", hint="install its CustomResourceDefinition"
    )


def _owned(error: ApiError) -> list[tuple[str, str]]:
    """The fields of a conflict, each with its manager."""
    owned = []
    for cause in error.causes:
        match = _MANAGER.search(str(cause.get("message", "")))
        if match:
            subresource = f" ({match['subresource']})" if match["subresource"] else ""
            owned.append((str(cause.get("field", "")).removeprefix("."), match["manager"] + subresource))
    return owned


def _conflict(error: ApiError, shown: str) -> UserError:
    owned = _owned(error)
    if not owned:
        return ConflictError(f"{shown} changed in the meantime", hint="run the command again")
    managers = ", ".join(sorted({manager for _, manager in owned}))
    lines = [f"  {field}  is owned by {manager}" for field, manager in sorted(owned)]
    return FieldConflictError(
        "\n".join([f"{shown}: {managers} has set fields that would change:", *lines]),
        hint=(
            "remove these fields from your manifest: their owner keeps them",
            f"or remove them from the manifest of {managers}, then run this again",
        ),
    )
