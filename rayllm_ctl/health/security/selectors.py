"""Label selectors of Kubernetes: what they select, and how people read them."""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects an object with these labels. An empty one selects all."""
    wanted = fields.mapping(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(one, labels) for one in fields.items(selector, "matchExpressions")
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = fields.text(expression, "key"), fields.words(expression, "values")
    match fields.text(expression, "operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def format_selector(selector: Object) -> str:
    """As `kubectl -l` takes it: app=web,tier in (a, b),!batch. Empty if it selects all."""
    parts = [f"{key}={value}" for key, value in fields.mapping(selector, "matchLabels").items()]
    for one in fields.items(selector, "matchExpressions"):
        key, values = fields.text(one, "key"), ", ".join(fields.words(one, "values"))
        operator = fields.text(one, "operator")
        parts.append(
            {"Exists": key, "DoesNotExist": f"!{key}"}.get(operator, f"{key} {operator.lower()} ({values})")
        )  # fmt: skip
    return ",".join(parts)
