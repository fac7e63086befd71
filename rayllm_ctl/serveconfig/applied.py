"""The Serve configuration of a RayService, text in its spec.serveConfigV2: where it stands, and its one reader.

It is read as Ray gets it. KubeRay has parsed it before (sigs.k8s.io/yaml), for which an unquoted date is text. A file
that a user hands over is checked more strictly (`read_serve_config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from rayllm_ctl.errors import UsageError
from rayllm_ctl.serveconfig.document import read_serve_document

FIELD: Final = "serveConfigV2"
"""The field of a RayService's spec."""


def config_text(rayservice: Mapping[str, Any]) -> str:
    """The text of the configuration; empty if the object has none."""
    spec = rayservice.get("spec")
    return str(spec.get(FIELD) or "") if isinstance(spec, Mapping) else ""


def applied_config(rayservice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration, which must not be changed; empty if there is none.

    UsageError with object, field and line for text that is not YAML, or not a mapping.
    """
    metadata = rayservice.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return _read(config_text(rayservice), f"rayservice/{name}: spec.{FIELD}" if name else f"spec.{FIELD}")


def applied_config_if_readable(rayservice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The same; None if it cannot be read, so that what it says is unknown."""
    try:
        return applied_config(rayservice)
    except UsageError:
        return None


@lru_cache(maxsize=8)  # a command asks for its routes, its gateway and its models, before and after a change
def _read(text: str, source: str) -> Mapping[str, Any]:
    config = read_serve_document(text, source, dates_as_text=True, may_be_empty=True).data
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise UsageError(f"{source}:1: expected a mapping with applications")
    return config
