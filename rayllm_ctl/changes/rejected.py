"""Changes that the API server rejects: fields that cannot change once an object is there.

The API server reports them as "field is immutable when `immutable` is set", "spec.selector: field is immutable",
"cannot change roleRef", and "updates to statefulset spec for fields other than ... are forbidden".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.changes.fields import Difference, format_path, mapping
from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.observed.changes import Consequence
from rayllm_ctl.model.text.hint import Hint

_OF_FILES = ("ConfigMap", "Secret")
_DEFAULT_TYPE = "Opaque"
_SIZE = ("spec", "resources", "requests", "storage")
"""Of a PersistentVolumeClaim: "field can not be less than previous value"."""

_WITH_SELECTOR = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_OF_STATEFUL_SETS = frozenset(
    {
        "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds",
        "persistentVolumeClaimRetentionPolicy",
    }
)  # fmt: skip
"""The fields of a StatefulSet's spec that can change."""

_OF_JOBS = frozenset({"activeDeadlineSeconds", "backoffLimit", "parallelism", "suspend", "ttlSecondsAfterFinished"})
"""The fields of a Job's spec that can change (k8s.io/kubernetes/pkg/apis/batch/validation)."""

_CLAIM = "PersistentVolumeClaim"
_OF_CLAIMS = frozenset({"resources", "volumeAttributesClassName"})
"""Those of a PersistentVolumeClaim: "spec is immutable after creation except resources.requests and
volumeAttributesClassName for bound claims"."""


def rejected(before: Mapping[str, Any], after: Mapping[str, Any], found: Iterable[Difference]) -> Consequence | None:
    """The API server's message if it rejects a change of an object; None if it accepts it."""
    kind = str(after.get("kind") or "")
    frozen = before.get("immutable") is True and kind in _OF_FILES
    held = [one.path for one in found if _held(kind, one, frozen)]
    if not held:
        return None
    metadata = mapping(after, "metadata")
    name, namespace = (str(metadata.get(key) or "") for key in ("name", "namespace"))
    of = f" -n {namespace}" if namespace else ""
    what = "is immutable" if frozen else f"cannot change {format_path(held[0])}"
    remark = "then apply it again: the files in its volume may be lost" if kind == _CLAIM else "then apply it again"
    return Consequence(
        "rejected",
        f"the API server rejects the change: {kind} {name} {what}; it stays as it is",
        hints=(
            Hint(remark=f"create a {kind} with a new name, and refer to it by this name"),
            Hint(f"kubectl delete {kind.lower()} {name}{of}", remark),
        ),
    )


def _held(kind: str, found: Difference, frozen: bool) -> bool:
    path = found.path
    if kind == _CLAIM and path == _SIZE:
        return _shrinks(found)
    if kind in _OF_FILES and frozen:
        return path[0] in ("data", "binaryData", "stringData", "immutable")
    if kind == "Secret":
        return path == ("type",) and (found.old or _DEFAULT_TYPE) != (found.new or _DEFAULT_TYPE)
    if kind == "StatefulSet" and path[0] == "spec":
        return path[1] not in _OF_STATEFUL_SETS
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        return path[0] == "roleRef"
    if kind == "Job" and path[0] == "spec":
        return path[1] not in _OF_JOBS
    if kind == _CLAIM and path[0] == "spec":
        return path[1] not in _OF_CLAIMS
    return kind in _WITH_SELECTOR and path[:2] == ("spec", "selector")


def _shrinks(found: Difference) -> bool:
    try:
        return parse_quantity(str(found.new)) < parse_quantity(str(found.old))
    except ValueError:
        return False
