"""How far the service is locked down."""

from __future__ import annotations

from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass

PodSecurity = Literal["restricted", "baseline", "privileged"]


@dataclass(frozen=True)
class Security:
    """Security of the pods."""

    pod_security: Annotated[
        PodSecurity,
        "Level of the Pod Security Standards that the pods satisfy. baseline: for images that must run as root. "
        "privileged: for hostPath volumes.",
    ] = "restricted"
