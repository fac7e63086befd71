"""LLMService: it declares a service, which the controller makes. It runs nothing itself, so it is not in WORKLOADS."""

from __future__ import annotations

from rayllm_ctl.kinds.common import RECORD
from rayllm_ctl.model.kube.owned import DECLARING
from rayllm_ctl.model.workload import Right, Rights

CHANGE_DECLARED = Rights(needed=(Right("get", DECLARING), Right("patch", DECLARING)))
"""What a command needs to change a service that an LLMService declares."""

DELETE_DECLARED = Rights(needed=(Right("get", DECLARING), Right("delete", DECLARING)))

ADOPT = RECORD | Rights(
    needed=tuple(Right(verb, DECLARING) for verb in ("get", "create", "patch")),
    display=(Right("update", DECLARING, "finalizers"),),
)
"""What adopting a service needs beside the rights to apply its objects. The last one where the API server has the
admission plugin OwnerReferencesPermissionEnforcement: children block the deletion of their owner."""

RELEASE = DELETE_DECLARED | Rights(needed=(Right("list", "ControllerRevision"),))
"""The same for the reverse."""
