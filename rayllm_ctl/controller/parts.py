"""The caches and reconcilers of a process, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rayllm_ctl.controller.batch import BatchReconciler
from rayllm_ctl.controller.caches import ObjectCaches
from rayllm_ctl.controller.service import ServiceReconciler
from rayllm_ctl.controller.types import Key, Reconciler, Scope, Watched
from rayllm_ctl.model.spec.batch import BATCH_KIND
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import KIND

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


class ReconcilerByKind:
    """Leaves each key to the reconciler of its kind."""

    def __init__(self, reconcilers: Mapping[str, Reconciler]) -> None:
        self._reconcilers = reconcilers

    def reconcile(self, key: Key) -> float | None:
        """See Reconciler."""
        return self._reconcilers[key.kind].reconcile(key)


def make_parts(cluster: Cluster, scope: Scope, changed: Callable[[Key], None]) -> tuple[Watched, Reconciler]:
    """The caches of `scope`, and the reconciler of LLMServices and BatchJobs."""
    caches = ObjectCaches(cluster, scope.namespaces, changed)
    facts = FactSources(offline=scope.offline)
    return caches, ReconcilerByKind(
        {KIND: ServiceReconciler(cluster, caches, facts), BATCH_KIND: BatchReconciler(cluster, caches, facts)}
    )
