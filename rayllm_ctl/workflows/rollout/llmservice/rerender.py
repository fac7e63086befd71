"""A service that is rendered again by the controller's release, although its spec is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds.llmservice import CHANGE_DECLARED
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.workflows.rollout.llmservice.change import DeclaredChange, rerender_change
from rayllm_ctl.workflows.rollout.llmservice.declaration import read_declaration
from rayllm_ctl.workflows.services import require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def prepare_rerender(cluster: Cluster, name: str, namespace: str) -> DeclaredChange:
    """The change of the LLMService that declares service `name`. Raises UserError if none does."""
    kind, live = require_service(cluster, name, namespace, CHANGE_DECLARED)
    if declared_by(live) is None:
        raise UserError(
            f"no LLMService declares {kind.name.lower()}/{name}: the command line renders it with each deploy",
            hint=f"rayllm-ctl deploy -f FILE -n {namespace}",
        )
    return rerender_change(read_declaration(cluster, kind, live))
