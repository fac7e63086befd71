"""Patches of rendered objects, applied last, which can set every field of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential
from rayllm_ctl.model.spec.checks.plain_data import any_text, is_plain_data
from rayllm_ctl.model.text.patterns import UNSENDABLE
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_OPERATIONS: Mapping[str, str] = {
    "add": "value", "remove": "", "replace": "value", "move": "from", "copy": "from", "test": "value",
}  # fmt: skip
"""Each operation of RFC 6902, and the member that it requires beside op and path."""


@dataclass(frozen=True)
class PatchTarget:
    """The objects that a patch changes: those that match all that is given."""

    kind: Annotated[str | None, "Kind of the object: RayService, Service, ..."] = None
    name: Annotated[str | None, "Name of the object."] = None
    group: Annotated[str | None, "API group, such as ray.io; empty for core kinds."] = None
    version: Annotated[str | None, "API version without the group, such as v1."] = None


@dataclass(frozen=True)
class Patch:
    """A change of rendered objects, applied after everything else."""

    target: PatchTarget
    patch: Annotated[Any, "Strategic merge patch (a mapping), or JSON Patch (a list of RFC 6902 operations)."]


def patch_problems(patches: tuple[Patch, ...]) -> Iterator[Problem]:
    """All that is wrong with the patches themselves, whatever they are applied to."""
    for index, patch in enumerate(patches):
        at: Path = ("spec", "patches", index)
        if patch.target == PatchTarget():
            yield Problem((*at, "target"), "requires at least one of kind, name, group and version")
        at = (*at, "patch")
        if not patch.patch or not isinstance(patch.patch, (Mapping, list)):
            yield Problem(at, "expected a mapping (strategic merge) or a list of operations (JSON Patch), not empty")
        elif not is_plain_data(patch.patch) or any_text(patch.patch, lambda text: bool(UNSENDABLE.search(text))):
            yield Problem(at, "contains characters or numbers that Kubernetes rejects")
        elif any_text(patch.patch, holds_a_credential):
            yield Problem(
                at,
                "a value looks like a credential; anyone who can read the object could read it",
                "put it in a Secret, and refer to that with valueFrom.secretKeyRef",
            )
        elif isinstance(patch.patch, list):
            for place, operation in enumerate(patch.patch):
                yield from _operation(operation, (*at, place))


def _operation(operation: Any, at: Path) -> Iterator[Problem]:
    if not isinstance(operation, Mapping):
        yield Problem(at, "expected a mapping with op and path", "such as {op: remove, path: /spec/suspend}")
        return
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        shown = quoted(name) if isinstance(name, str) else "this value"
        yield Problem((*at, "op"), f"{shown} is not supported (supported values: {', '.join(_OPERATIONS)})")
        return
    required = ("op", "path", *filter(None, [_OPERATIONS[name]]))
    for key in required:
        if key not in operation:
            yield Problem((*at, key), f"required by {name}")
    for key in operation:
        if key not in required:
            yield Problem((*at, key), f"unknown field of {name}", did_you_mean(key, required))
    for key in ("path", "from"):
        pointer = operation.get(key, "/")
        if not isinstance(pointer, str) or not pointer.startswith("/"):
            yield Problem((*at, key), "expected a JSON Pointer, such as /spec/rayClusterConfig/rayVersion")
