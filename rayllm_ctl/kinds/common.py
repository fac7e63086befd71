"""Rights that the kinds have in common."""

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
"""What explains why something does not start."""

EXPOSURE = (
    Right("get", "Service"),
    Right("get", "Ingress"),
    Right("get", "IngressClass"),
    Right("get", "HTTPRoute"),
    Right("get", "Gateway", everywhere=True),
)
"""What tells the addresses outside the cluster. A look at a service asks only for what exposes it."""

OVERVIEW = (
    Right("list", "Event"),
    *OPERATOR,
    Right("list", "Service"),
    Right("list", "Ingress"),
    Right("list", "HTTPRoute"),
    Right("list", "Gateway", everywhere=True),
)
"""What a list of services shows beside their state."""

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
"""What tells who can reach a service and what its pods may do, beside its object."""

FORWARDING = (Right("list", "EndpointSlice"), Right("get", "Pod", "portforward"), Right("create", "Pod", "portforward"))
"""What forwarding a port to a pod behind a Service asks for; the verb depends on the version of Kubernetes."""

_REVISION = "ControllerRevision"

RECORD = Rights(needed=tuple(Right(verb, _REVISION) for verb in ("list", "create", "patch", "delete")))
"""What keeping a history asks for. deploy continues without it."""

HISTORY = Rights(needed=(Right("list", _REVISION),))

FORGET = (Right("list", _REVISION), Right("delete", _REVISION))
"""What deleting the history with its service asks for."""
