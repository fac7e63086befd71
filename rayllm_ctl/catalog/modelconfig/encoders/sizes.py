"""The sizes of an encoder by name: stated by the config, derived from others, or fixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.fields import Fields

Expression = int | str
"""A number, the name of a size, or a sum of products and whole quotients: "width", "width*4", "grid/merge*tiles+2"."""

_HIGHEST = {
    "heads": MOST_HEADS, "kv_heads": MOST_HEADS, "depth": MOST_LAYERS, "image": 2**14, "patch": 256, "merge": 64,
    "frames": 64, "tiles": 256, "layers": MOST_LAYERS, "bins": 2**12,
}  # fmt: skip
"""Larger numbers are damaged configs. Other sizes may have up to 2**34."""

_DERIVED: dict[str, Expression | Callable[[EncoderScope], int]] = {
    "text": lambda scope: scope.source.hidden, "merge": 1, "frames": 1, "merged": "width*merge*merge",
    "grid": lambda scope: (scope["image"] // scope["patch"])**2, "values": "frames*patch*patch*3",
    "pixels": "image*image*3",
}  # fmt: skip
"""text: the decoder's hidden size. merged: features of the patches that become one token. grid: patches of an image.
values: input values of a patch. pixels: those of an image."""


class EncoderScope:
    """The sizes of one encoder while it is read."""

    source: EncoderSource

    def __init__(self, source: EncoderSource, sizes: Mapping[str, SizeEntry], part: str = "") -> None:
        self.source = source
        self._entries = sizes
        self._sizes: dict[str, int] = {}
        if part:
            self.source = source._replace(vision=self.fields(part))

    def read_all(self) -> None:
        """Reads the sizes that no step names as well: a wrong one is refused."""
        for name in self._entries:
            self[name]

    def __getitem__(self, expression: Expression) -> int:
        if isinstance(expression, int):
            return expression
        return sum(self._term(term) for term in expression.split("+"))

    def _term(self, term: str) -> int:
        first, *others = re.split(r"([*/])", term)
        value = self._factor(first)
        for operator, name in zip(others[::2], others[1::2], strict=True):
            value = value * self._factor(name) if operator == "*" else value // self._factor(name)
        return value

    def _factor(self, name: str) -> int:
        if name.isdigit():
            return int(name)
        if name not in self._sizes:
            self._sizes[name] = self._read(name)
        return self._sizes[name]

    def _read(self, name: str) -> int:
        entry = self._entries[name] if name in self._entries else _DERIVED[name]
        if isinstance(entry, Size):
            default = entry.default(self) if callable(entry.default) else entry.default
            default = None if default is None else self[default]
            return self.fields(entry.part).integer(
                *entry.names, default=default, low=entry.low, high=entry.high or _HIGHEST.get(name, 2**34)
            )
        return entry(self) if callable(entry) else self[entry]

    def fields(self, part: str) -> Fields:
        """The vision (or audio) part, "config" for the whole, or one of its objects; a dot leads further down."""
        if not part:
            return self.source.vision
        if part == "config":
            return self.source.config
        return reduce(Fields.child, part.split("."), self.source.config)

    def holds(self, choice: SizeChoice) -> bool:
        if isinstance(choice, bool):
            return choice
        if isinstance(choice, Flag):
            return self.fields(choice.part).flag(*choice.names, default=choice.default)
        return choice(self)


Default = Expression | Callable[["EncoderScope"], int] | None


class Size(NamedTuple):
    """A size that the config states under one of `names`; default None: it must. high 0: the highest of its name."""

    names: tuple[str, ...]
    default: Default = None
    part: str = ""
    low: int = 1
    high: int = 0


class Flag(NamedTuple):
    """What a field of the config switches."""

    names: tuple[str, ...]
    default: bool = False
    part: str = ""


SizeEntry = Size | Expression | Callable[[EncoderScope], int]
SizeChoice = bool | Flag | Callable[[EncoderScope], bool]


def size(names: str, default: Default = None, part: str = "", *, low: int = 1, high: int = 0) -> Size:
    """A size by its names, which spaces separate."""
    return Size(tuple(names.split()), default, part, low, high)


def flag(names: str, part: str = "", *, default: bool = False) -> Flag:
    return Flag(tuple(names.split()), default, part)


def vit(names: Mapping[str, str] | None = None, /, **sizes: Default) -> dict[str, SizeEntry]:
    """The sizes of a vision transformer, with what holds where a config is silent: by their usual names or `names`."""
    known = {**_USUAL, **(names or {})}
    return {name: size(known[name], default) for name, default in sizes.items()}


_USUAL = {
    "width": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_key_value_heads",
    "middle": "intermediate_size", "depth": "num_hidden_layers", "patch": "patch_size", "image": "image_size",
    "frames": "temporal_patch_size", "merge": "spatial_merge_size", "out": "out_hidden_size", "bins": "num_mel_bins",
}  # fmt: skip


def ratio(default: float) -> Callable[[EncoderScope], int]:
    """The feed-forward width as a multiple of the hidden size."""
    return lambda scope: int(scope["width"] * max(scope.source.vision.number("mlp_ratio", default=default), 0.0))


def stated(name: str) -> SizeChoice:
    """That the config has this field, which it must."""

    def choice(scope: EncoderScope) -> bool:
        if not scope.source.config.has(name):
            raise scope.source.config.missing(name)
        return True

    return choice
