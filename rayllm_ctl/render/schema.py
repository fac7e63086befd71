"""Rendered objects against KubeRay's own schema, offline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import UserError

if TYPE_CHECKING:
    from jsonschema_rs import Validator


_SCHEMAS = {("ray.io/v1", "RayService"): "rayservice-v1.json"}
"""The bundled schemas by apiVersion and kind; objects of other kinds are left to the API server."""


@cache
def _validator(name: str) -> Validator:
    import jsonschema_rs

    text = resources.files("rayllm_ctl.render").joinpath("schemas", name).read_text(encoding="utf-8")
    return jsonschema_rs.validator_for(json.loads(text))


def check(manifest: Mapping[str, Any]) -> None:
    """Raise UserError with every field that the API server would reject: unknown, of a wrong type, missing.

    Input is checked long before, so this is a bug in the templates, found before a cluster could.
    """
    kind = str(manifest["kind"])
    name = _SCHEMAS.get((str(manifest["apiVersion"]), kind))
    if name is None:
        return
    problems = [
        f"{'.'.join(str(part) for part in error.instance_path) or kind}: {error.message}"
        for error in _validator(name).iter_errors(manifest)
    ]
    if problems:
        raise UserError(
            f"the rendered {kind} does not match its schema:\n" + "\n".join(problems),
            hint="this is a bug in rayllm-ctl; please report it with the spec file or the flags",
        )
