"""What is applied before the rest: the objects that download models. Pure.

The object with the pods that have GPUs follows once the models are complete. Its pods would hold the GPUs while they
wait, and those of an upgrade a second set of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rayllm_ctl.controller.types import ChildKey, child_key
from rayllm_ctl.model.kube.revisions import code_digest
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.workflows.rollout.model_storage.apply import needed_first

_JOB = "Job"


def first_stage(manifests: Sequence[Mapping[str, Any]]) -> tuple[ChildKey, ...]:
    """The children that download the models of `manifests`; empty if nothing is downloaded.

    With them goes the code that has its digest in its name: no running pod mounts it before, and a later release of the
    controller, which may come while the download lasts, finds it nowhere but in the cluster.
    """
    first = needed_first(manifests)
    if not first:
        return ()
    needed = frozenset(map(child_key, first))
    return tuple(key for item in manifests if (key := child_key(item)) in needed or _is_code_by_digest(item))


def downloads_of(first: Sequence[ChildKey], stored: Mapping[ChildKey, Object]) -> list[Object]:
    """The Jobs of a first stage that there are."""
    return [stored[key] for key in first if key[0] == _JOB and key in stored]


def incomplete_jobs(first: Sequence[ChildKey], stored: Mapping[ChildKey, Object]) -> tuple[ChildKey, ...]:
    """The Jobs of a first stage whose models are not complete; also those that are not there yet."""
    return tuple(key for key in first if key[0] == _JOB and not _is_complete(stored.get(key, {})))


def without(stored: Mapping[ChildKey, Object], uids: Collection[str]) -> Mapping[ChildKey, Object]:
    """`stored` without the objects of these uids: they are about to be deleted, or the watch has yet to tell of it."""
    return {child: item for child, item in stored.items() if item["metadata"]["uid"] not in uids}


def _is_complete(job: Object) -> bool:
    return fields.condition(job, "Complete").get("status") == "True"


def _is_code_by_digest(item: Mapping[str, Any]) -> bool:
    digest = code_digest(item)
    return bool(digest) and str(item["metadata"]["name"]).endswith(digest)
