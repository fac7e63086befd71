"""Common rights of the kinds."""

from __future__ import annotations

from rayllm_ctl.model.workload import Right, Rights

OPERATOR = (Right("list", "Deployment", everywhere=True), Right("list", "Pod", everywhere=True))
"""The operator runs in a namespace that is not known beforehand."""

REASONS = (
    Right("list", "Service"),
    Right("list", "Event"),
    Right("get", "Pod", "log"),
    Right("get", "PersistentVolumeClaim"),
    Right("list", "ResourceQuota"),
    Right("list", "LimitRange"),
    Right("get", "Namespace"),
    Right("get", "Node"),
    Right("list", "Node"),
    *OPERATOR,
)
"""Rights to explain why something does not start."""

DOWNLOADS = Rights(display=(Right("list", "Job"), Right("list", "Pod"), Right("get", "Pod", "log")))
"""Rights to follow the Jobs that download models into shared storage."""

EXPOSURE = (
    Right("get", "Service"),
    Right("get", "Ingress"),
    Right("get", "IngressClass"),
    Right("get", "HTTPRoute"),
    Right("get", "Gateway", everywhere=True),
)
"""Rights to read external addresses. Only the objects that expose a service are read."""

OVERVIEW = (
    Right("list", "Event"),
    *OPERATOR,
    Right("list", "Service"),
    Right("list", "Ingress"),
    Right("list", "HTTPRoute"),
    Right("list", "Gateway", everywhere=True),
)
"""Rights for the columns of a list of services other than the state."""

SECURITY = Rights(
    needed=(Right("get", "RayCluster"), Right("list", "RayCluster"), Right("list", "Pod")),
    display=(
        *(Right("list", what) for what in ("Service", "Ingress", "HTTPRoute", "NetworkPolicy", "RoleBinding")),
        Right("list", "ClusterRoleBinding"),
        Right("get", "Role"),
        Right("get", "ClusterRole"),
        Right("get", "Service", "proxy"),
        Right("list", "Deployment", everywhere=True),
    ),
)
"""Rights to check the access to a service and the permissions of its pods."""

FORWARDING = (Right("list", "EndpointSlice"), Right("get", "Pod", "portforward"), Right("create", "Pod", "portforward"))
"""Rights to forward a port to a pod behind a Service; the verb depends on the version of Kubernetes."""

_REVISION = "ControllerRevision"

RECORD = Rights(needed=tuple(Right(verb, _REVISION) for verb in ("list", "create", "patch", "delete")))
"""Rights to record the history. deploy continues without them."""

HISTORY = Rights(needed=(Right("list", _REVISION),))

FORGET = (Right("list", _REVISION), Right("delete", _REVISION))
"""Rights to delete the history with its service."""
