"""Versions of Ray and KubeRay as numbers, and the first ones with token authentication."""

from __future__ import annotations

import re

TOKEN_RAY = (2, 52)
"""The first release of Ray with token authentication (doc/source/ray-security/token-auth.md)."""

TOKEN_KUBERAY = (1, 5, 1)
"""The first release of KubeRay with authOptions."""

_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")


def release(version: str) -> tuple[int, ...] | None:
    """The numbers that a version begins with: (2, 60, 0) of 2.60.0-py312, (2, 60) of 2.60; None if there are none."""
    match = _RELEASE.match(version)
    return tuple(int(number) for number in match.groups() if number is not None) if match else None


def is_older(version: str, least: tuple[int, ...]) -> bool:
    """Whether a version is known to be older than `least`; one without a patch number (1.5) stands for the newest."""
    found = release(version)
    return found is not None and found < least[: len(found)]
