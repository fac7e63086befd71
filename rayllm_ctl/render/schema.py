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


@cache
def _validator(kind: str, version: str) -> Validator:
    import jsonschema_rs

    name = f"{kind.lower()}-{version}.json"
    text = resources.files("rayllm_ctl.render").joinpath("schemas", name).read_text(encoding="utf-8")
    return jsonschema_rs.validator_for(json.loads(text))


def check(manifest: Mapping[str, Any]) -> None:
    """Raise UserError with every field that KubeRay would refuse: unknown ones, wrong types, missing ones.

    Input is checked long before, so this is a fault of the renderer, found before a cluster could.
    """
    kind, version = str(manifest["kind"]), str(manifest["apiVersion"]).rpartition("/")[2]
    problems = [
        f"{'.'.join(str(part) for part in error.instance_path) or kind}: {error.message}"
        for error in _validator(kind, version).iter_errors(manifest)
    ]
    if problems:
        raise UserError(
            f"the rendered {kind} does not fit KubeRay's schema:\n" + "\n".join(problems),
            hint="this is a fault of rayllm-ctl; please report it with the spec file or the flags",
        )
