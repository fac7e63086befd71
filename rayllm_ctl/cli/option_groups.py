"""Tables of options, and options that are handed over as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

FlagTable = tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...]
"""One line per flag: what a user types, the field of the spec it sets, and how its value is read."""


def gathered(
    function: F,
    options: Sequence[Callable[[Any], Any]],
    parameters: Sequence[str],
    name: str,
    make: Callable[[Mapping[str, Any]], Any],
) -> F:
    """`function` with `options`, in the order of the help page. `make` turns the values of `parameters` into one
    argument `name`."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        values = {parameter: kwargs.pop(parameter) for parameter in parameters}
        return function(*args, **{name: make(values)}, **kwargs)

    wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
    wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = wrapper
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result
