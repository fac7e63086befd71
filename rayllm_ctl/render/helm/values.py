"""The values of the Helm chart: those that the templates are filled with, as a file writes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import INSTANCE, MANAGED_BY, PART_OF
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.text.json_form import camel, to_json
from rayllm_ctl.render.changes import Change, changes
from rayllm_ctl.render.manifests import laid_out, render
from rayllm_ctl.render.reads import ITEMS, Tree, fields_read
from rayllm_ctl.render.values import Values, values_of


@dataclass(frozen=True)
class ChartValues(Values):
    """All that the chart reads."""

    patches: Annotated[
        Mapping[str, tuple[Change, ...]], "Changes of objects after they are laid out, by the names of their templates."
    ]


_LARGEST_EXACT = 2**53
"""Helm reads every number as a 64-bit float."""


def helm_values(plan: Plan) -> dict[str, Any]:
    """The values of the chart with which it lays out the same objects.

    Raises UserError if the plan does not run or a number is more than Helm can hold, UsageError without an image.
    """
    written = as_written(values_of(plan))
    objects = laid_out(plan)
    written["patches"] = {
        object_name(template): found
        for (template, manifest), final in zip(objects.items(), render(plan), strict=True)
        if (found := to_json(list(changes(manifest, final))))
    }
    _check_numbers(written, "")
    return written


def object_name(template: str) -> str:
    """What the chart calls the object of a template."""
    return template.removesuffix(".yaml.j2")


def as_written(values: Values) -> dict[str, Any]:
    """`values` as the chart's file has them: what the templates read, without the labels that the chart sets itself."""
    labels = {name: value for name, value in values.labels.items() if name not in (INSTANCE, PART_OF, MANAGED_BY)}
    written: dict[str, Any] = _plain(dataclasses.replace(values, labels=labels), fields_read())
    return written


def _plain(value: Any, tree: Tree) -> Any:
    """`value` as plain data with camelCase keys: the fields in `tree`, or all of it where that is empty."""
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as Helm reads it anyway
    if value is None or not tree:
        return to_json(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item, tree.get(ITEMS, {})) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item, tree.get(ITEMS, {})) for key, item in value.items()}
    fields = (field.name for field in dataclasses.fields(value) if field.name in tree)
    return {camel(name): _plain(getattr(value, name), tree[name]) for name in fields}


def _check_numbers(value: Any, path: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_numbers(item, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_numbers(item, f"{path}[{position}]")
    elif isinstance(value, int) and abs(value) > _LARGEST_EXACT:
        raise UserError(
            f"{path}: Helm reads {value} as a floating-point number, which rounds it",
            hint="render without --format helm-values",
        )
