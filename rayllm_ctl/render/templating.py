"""Jinja as this project uses it: undefined names fail, and every value goes through one filter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rayllm_ctl.model.yamltext import flow

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> Environment:
    """The environment of the package's templates; `yaml` is the one filter that may end an expression.

    Jinja costs about 100 ms to import, so only rendering pays for it.
    """
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.PackageLoader("rayllm_ctl.render"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  YAML, not HTML: the filter quotes
    )
    env.filters["yaml"] = _quoted
    env.filters["plain"] = _plain
    return env


def _quoted(value: Any) -> str:
    import jinja2

    if isinstance(value, jinja2.Undefined):
        str(value)  # raises UndefinedError, with the name
    return flow(value)


def _plain(number: float) -> int | float:
    """2.0 as 2: figures as a person would write them."""
    return int(number) if number == int(number) else number


def fill(template: str, values: Mapping[str, Any]) -> Any:
    """`template` with `values`, read back as data."""
    import yaml

    text = environment().get_template(template).render(values)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe loaders
