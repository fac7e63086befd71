"""Rights that the kinds have in common."""

from __future__ import annotations

from rayllm_ctl.model.workload import Right

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
