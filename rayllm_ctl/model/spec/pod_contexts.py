"""The security contexts of pods and containers at each level of the Pod Security Standards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.spec.security import PodSecurity

RAY_USER = {"runAsUser": 1000, "runAsGroup": 100}
"""The user `ray` of Ray's images, which owns its home (docker/base-deps/Dockerfile of Ray 2.60: RAY_UID, RAY_GID).
Written out, since the kubelet cannot tell whether the user of an image that names it (USER ray) is root."""


def pod_context(level: PodSecurity, given: Mapping[str, Any]) -> dict[str, Any]:
    """The security context of a pod: that of the level with the user's fields in it; null removes a field.

    A volume that must be writable belongs to root when it is new: with fsGroup it becomes the group's. OnRootMismatch
    spares the walk through every file of a large one.
    """
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    defaults: Mapping[PodSecurity, Mapping[str, Any]] = {
        "restricted": {
            "runAsNonRoot": True,
            **RAY_USER,
            "fsGroup": RAY_USER["runAsGroup"],
            "fsGroupChangePolicy": "OnRootMismatch",
            **seccomp,
        },
        "baseline": seccomp,
        "privileged": {},
    }
    return _without_null({**defaults[level], **given})


def container_context(level: PodSecurity, given: Mapping[str, Any]) -> dict[str, Any]:
    """The security context of a container, in the same way."""
    defaults: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return _without_null({**(defaults if level == "restricted" else {}), **given})


def lost(level: PodSecurity) -> str | None:
    """Protections that pods of this level lack compared with "restricted"; None if they lack nothing."""
    losses: Mapping[PodSecurity, str] = {
        "baseline": "containers run as the user of the image, which may be root, keep the default capabilities and can "
        'gain privileges; a namespace that enforces "restricted" rejects them',
        "privileged": "containers run as the user of the image, which may be root, without a seccomp profile, keep the "
        "default capabilities, can gain privileges and may mount directories of the node; a namespace that enforces "
        '"restricted" or "baseline" rejects them',
    }
    return f"Pod Security {level}: {losses[level]}" if level in losses else None


def _without_null(context: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in context.items() if value is not None}
