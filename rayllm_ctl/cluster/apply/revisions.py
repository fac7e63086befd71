"""The history of a service, in the cluster: a ControllerRevision for each applied state. It does not contain
Secrets, and of the code in its pods only the digest.

They have no owner: KubeRay copies labels but not these, and the deletion of a service with kubectl leaves them behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.permissions import user_name
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube.labels import CHANGE, MANAGED_BY, MANAGER, OUTCOME, SERVICE, START_SECONDS, USER
from rayllm_ctl.model.kube.revisions import KEPT, Revision, as_kept, revision_of

_KIND = "ControllerRevision"
_TRIES = 3


def revisions(cluster: Cluster, name: str, namespace: str) -> list[Revision]:
    """The revisions of service `name`, the oldest first. Raises ForbiddenError."""
    stored = cluster.list(_KIND, namespace, label_selector=f"{SERVICE}={name},{MANAGED_BY}={MANAGER}")
    return sorted(map(revision_of, stored), key=lambda revision: revision.number)


def add_revision(
    cluster: Cluster,
    name: str,
    namespace: str,
    manifests: Sequence[Mapping[str, Any]],
    *,
    change: str,
    outcome: str,
    start_seconds: float | None,
    known: Sequence[Revision],
    annotations: Mapping[str, str] = MappingProxyType({}),
    owner: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    tries: int = _TRIES,
) -> Revision:
    """Keep `manifests` as the next revision of service `name`, and KEPT at most. known: the revisions there are.

    annotations: further ones. owner: the reference to an object with which the revision is to go. spec: that of the
    LLMService that the manifests were rendered from. tries: how many numbers are tried, as another client may take one.
    Raises ApiError with the reason AlreadyExists when all are taken.
    """
    number = max((one.number for one in known), default=0) + 1
    for attempt in range(tries):
        body = _revision(name, number + attempt, manifests)
        notes = {USER: user_name(cluster), CHANGE: change, OUTCOME: outcome, **annotations}
        if start_seconds is not None:
            notes[START_SECONDS] = f"{start_seconds:.0f}"
        body["metadata"]["annotations"] = notes
        if spec is not None:
            body["data"]["spec"] = dict(spec)
        if owner is not None:
            body["metadata"]["ownerReferences"] = [owner]
        try:
            made = revision_of(cluster.create(body, _KIND, namespace))
        except ApiError as error:
            if error.reason != "AlreadyExists" or attempt == tries - 1:
                raise
            continue  # another client was faster
        break
    for old in known[: max(len(known) + 1 - KEPT, 0)]:
        with suppress(UserError):
            cluster.delete(_KIND, old.object_name, namespace, uid=old.uid, background=True)
    return made


def set_outcome(cluster: Cluster, revision: Revision, namespace: str, outcome: str) -> None:
    """Record the outcome of a revision, if it still exists: it is gone if the service was deleted."""
    annotate_revision(cluster, revision.object_name, namespace, {OUTCOME: outcome})


def annotate_revision(cluster: Cluster, object_name: str, namespace: str, annotations: Mapping[str, str]) -> None:
    """Write annotations of a revision, unless it is gone."""
    with suppress(NotFoundError):
        cluster.patch(
            _KIND, object_name, namespace, {"metadata": {"annotations": dict(annotations)}},
            content_type="application/merge-patch+json", query=[("fieldManager", MANAGER)],
        )  # fmt: skip


def delete_revisions(cluster: Cluster, name: str, namespace: str, known: Sequence[Revision]) -> Iterator[Noted]:
    """Delete the history of a service; a note if that is not permitted."""
    for revision in known:
        try:
            cluster.delete(_KIND, revision.object_name, namespace, uid=revision.uid, background=True)
        except NotFoundError:
            continue
        except ForbiddenError:
            yield Noted(
                f"the history of {name} remains: not permitted to delete controllerrevisions.apps "
                f"in namespace {namespace}"
            )
            return


def _revision(name: str, number: int, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": _KIND,
        "metadata": {"name": f"{name}-{number}", "labels": {SERVICE: name, MANAGED_BY: MANAGER}},
        "revision": number,
        "data": {"manifests": [as_kept(manifest) for manifest in manifests if manifest["kind"] != "Secret"]},
    }
