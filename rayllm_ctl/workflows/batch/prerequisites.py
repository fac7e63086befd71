"""What a batch job needs of the cluster, checked before anything is applied."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.lookup.services import find_object
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.kuberay_versions import known_version
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, decide_token
from rayllm_ctl.workflows.render.batch import BatchRendering, batch_rendering_of
from rayllm_ctl.workflows.render.check import check_objects
from rayllm_ctl.workflows.render.types import RenderOptions
from rayllm_ctl.workflows.rollout.model_storage.checks import Manifests, require_storage

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def for_kuberay(
    batch: BatchJob, made: BatchRendering, options: RenderOptions, running: str | None
) -> Generator[Checked, None, BatchRendering]:
    """`made` for the cluster's version of KubeRay: with a token if that supports it. running: None if it is unknown.

    Raises UserError if it does not support all fields of the manifests.
    """
    if not running:
        return made
    token = decide_token(batch, KnownCluster(running))
    if token != made.token:
        made = batch_rendering_of(made.plan, options, token)
        yield Checked("token authentication", None, token.why_off)
    version, note = known_version(running)
    check_objects(made.manifests, version)
    if note:
        yield Checked("manifests", None, note)
    return made


def require_pool(cluster: Cluster, batch: BatchJob, namespace: str) -> None:
    """Raise UserError if the RayCluster that the job is to run on does not exist."""
    if batch.cluster is not None and find_object(cluster, "RayCluster", batch.cluster, namespace) is None:
        raise UserError(
            f"spec.cluster: there is no raycluster {batch.cluster} in namespace {namespace}",
            hint=f"kubectl get rayclusters -n {namespace}",
        )


def has_storage(made: BatchRendering) -> bool:
    """Whether the job has storage of models or caches of its own."""
    return made.plan.deployment is not None and made.plan.deployment.storage is not None


def require_job_storage(
    cluster: Cluster, made: BatchRendering, manifests: Manifests, namespace: str
) -> Generator[Checked, None, tuple[dict[str, Any], ...]]:
    """As require_storage, for a job that may have none. manifests: of `made`."""
    if not has_storage(made):
        return tuple(map(dict, manifests))
    return (yield from require_storage(cluster, manifests, namespace, made.plan.plan.file_bytes))
