"""Types of the flags of `bench`."""

from __future__ import annotations

from typing import Any

import click

from rayllm_ctl.loadtest.settings import Length, Objective
from rayllm_ctl.model.kube.quantities import parse_duration
from rayllm_ctl.model.text.lengths import parse_lengths


class Amounts(click.ParamType[tuple[float, ...]]):
    """Positive numbers, separated by commas."""

    def __init__(self, number: type[int] | type[float]) -> None:
        self._number = number
        self.name = "n,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(self._number(part) for part in str(value).split(","))
        except ValueError:
            found = ()
        if not found or not all(0 < one < float("inf") for one in found):
            what = "whole numbers" if self._number is int else "numbers"
            self.fail(f"expected {what} greater than 0, separated by commas, such as 1,4,16", param, ctx)
        return found


class TokenLength(click.ParamType[Length]):
    """A number of tokens, or how it is distributed."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Length:
        if isinstance(value, Length):
            return value
        try:
            found = parse_lengths(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return Length(found.kind, found.low, found.high, found.sigma)


class LoadLimits(click.ParamType[Objective]):
    """ttft=500ms,tpot=50ms: latency limits for answers."""

    name = "limits"
    _TIMES = ("ttft", "tpot", "itl", "e2e")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Objective:
        if isinstance(value, Objective):
            return value
        found: dict[str, float] = {}
        for part in str(value).split(","):
            name, _, text = part.partition("=")
            if name in found:
                self.fail(f"{name} is given twice", param, ctx)
            if name not in (*self._TIMES, "share"):
                self.fail(f'"{part}" is not one of {", ".join(f"{one}=TIME" for one in self._TIMES)} or share=0.95',
                          param, ctx)  # fmt: skip
            try:
                found[name] = float(text) if name == "share" else parse_duration(text)
            except ValueError as error:
                self.fail(f"{name}: {error}", param, ctx)
        if not 0 < found.get("share", 1) <= 1:
            self.fail("share: expected a number greater than 0 and at most 1, such as 0.95", param, ctx)
        times = [value for name, value in found.items() if name != "share"]
        if not times or not all(times):
            self.fail("expected at least one limit, longer than 0, such as ttft=500ms", param, ctx)
        return Objective(**found)
