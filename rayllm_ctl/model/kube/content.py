"""Remove fields that the API server and controllers set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_VOLATILE = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")
"""Metadata that the API server sets."""


def content(stored: Mapping[str, Any]) -> dict[str, Any]:
    """An object without its status and the API server's own metadata.

    A comparison of resourceVersions would report a change whenever a controller wrote the status in between.
    """
    metadata = {key: value for key, value in (stored.get("metadata") or {}).items() if key not in _VOLATILE}
    return {**{key: value for key, value in stored.items() if key != "status"}, "metadata": metadata}
