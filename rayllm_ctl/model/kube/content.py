"""What of a stored object is a user's, and what the API server and controllers keep by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_VOLATILE = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")
"""Metadata that the API server keeps by itself."""


def content(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a user could have changed: everything but the status and the API server's own metadata.

    Comparing resourceVersions would call an object changed whenever a controller wrote its status in between.
    """
    metadata = {key: value for key, value in (stored.get("metadata") or {}).items() if key not in _VOLATILE}
    return {**{key: value for key, value in stored.items() if key != "status"}, "metadata": metadata}
