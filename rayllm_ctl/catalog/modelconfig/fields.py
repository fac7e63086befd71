"""Typed access to a config.json: whatever the file holds, a wrong or missing field is named, never a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.errors import UsageError

COMPLETE_CONFIG = "--model-config FILE    # the complete config.json of the model"
"""The hint where a config.json lacks something."""
_BIGGEST = 2**34
"""No size of a model comes near: larger numbers are rejected before arithmetic or loops meet them."""


_NO_SIZES = ("_token_id", "_token_index", "pretraining_tp", "max_window_layers", "_theta", "decoder_layers")
_SHOWN = 6


class MissingField(UsageError):
    """A field that a reader needs and a config does not have."""


class Fields:
    """One JSON object of a config; names are tried in order, null counts as absent. `where`: its path for messages.

    `defaults`: what the model's type says where the file is silent. `used`: collects what was read (for compact forms).
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        where: str = "",
        defaults: Mapping[str, Any] | None = None,
        used: dict[str, Any] | None = None,
    ) -> None:
        self._data = data
        self._defaults = defaults or {}
        self.where = where
        self.used: dict[str, Any] = {} if used is None else used

    def __bool__(self) -> bool:
        return bool(self._data)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Fields:
        """The same object with other defaults."""
        return Fields(self._data, self.where, defaults, self.used)

    def raw(self, *names: str) -> Any:
        """The first value that is there and not null, else the default of the model's type, else None."""
        for name in names:
            value = self._data.get(name)
            if value is not None:
                self.used.setdefault(name, value)
                return value
        for name in names:
            value = self._defaults.get(name)
            if value is not None:
                return value
        return None

    def has(self, *names: str) -> bool:
        return self.raw(*names) is not None

    def holds(self, name: str) -> bool:
        """Whether there is an object of this name."""
        return isinstance(self._data.get(name), Mapping)

    def entries(self, longest: int = 2**20) -> Mapping[str, Any]:
        """The object itself, all of it. UsageError for one of more than `longest` entries."""
        if len(self._data) > longest:
            raise UsageError(
                f"config.json: {self.where.removesuffix('.')} has more than {longest} entries", hint=COMPLETE_CONFIG
            )
        for name, value in self._data.items():
            self.used.setdefault(name, value)
        return self._data

    def unread_sizes(self) -> list[str]:
        """Numbers that may be sizes and were not read, a few of them. (The compact form says the same.)"""
        numbers = (
            name for name, value in self._data.items() if type(value) is int and value > 1 and name.isidentifier()
        )
        unread = [name for name in numbers if name not in self.used and not name.endswith(_NO_SIZES)][:_SHOWN]
        self.used.update((name, self._data[name]) for name in unread)
        return unread

    def missing(self, *names: str) -> MissingField:
        others = f" (nor {', '.join(names[1:])})" if len(names) > 1 else ""
        return MissingField(f"config.json has no field {self.where}{names[0]}{others}", hint=COMPLETE_CONFIG)

    def wrong(self, name: str, value: object, wanted: str) -> UsageError:
        """A value that cannot be; a field that is not there is a missing one."""
        if self._data.get(name) is None and self._defaults.get(name) is None and not value:
            return self.missing(name)
        shown = repr(value) if not isinstance(value, (list, dict)) or len(value) < 8 else type(value).__name__
        shown = shown if len(shown) < 60 else shown[:57] + "..."
        return UsageError(f"config.json: {self.where}{name} is {shown}, but must be {wanted}", hint=COMPLETE_CONFIG)

    def _named(self, names: tuple[str, ...]) -> str:
        return next((name for name in names if self._data.get(name) is not None), names[0])

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = _BIGGEST) -> int:
        """A whole number in [low, high]; without a default it must be there."""
        value = self.raw(*names)
        if value is None:
            if default is None:
                raise self.missing(*names)
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(self._named(names), value, f"a whole number from {low} to {high}")
        return value

    def integer_at(
        self, index: int, *names: str, default: int | None = None, low: int = 1, high: int = _BIGGEST
    ) -> int:
        """Like integer, for fields that may list one number per layer: the one of layer `index`."""
        value = self.raw(*names)
        if isinstance(value, (list, tuple)):
            listed = self.integers(*names, low=low, high=high)
            if not listed:
                raise self.wrong(self._named(names), value, "a number or a list of numbers")
            return listed[min(index, len(listed) - 1)]
        return self.integer(*names, default=default, low=low, high=high)

    def number(self, *names: str, default: float) -> float:
        """A finite number."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _BIGGEST:
            raise self.wrong(self._named(names), value, "a number")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, (bool, int)):
            raise self.wrong(self._named(names), value, "true or false")
        return bool(value)

    def text(self, *names: str, default: str = "") -> str:
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(self._named(names), value, "text")
        return value

    def child(self, *names: str, defaults: Mapping[str, Any] | None = None) -> Fields:
        """A nested object; absent counts as empty."""
        for name in names:
            value = self._data.get(name)
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise self.wrong(name, value, "an object")
            nested = self.used.get(name)
            if not isinstance(nested, dict) or nested is value:
                nested = self.used[name] = {}
            return Fields(value, f"{self.where}{name}.", defaults, nested)
        default: Mapping[str, Any] = next(
            (self._defaults[name] for name in names if isinstance(self._defaults.get(name), Mapping)), {}
        )
        return Fields({}, f"{self.where}{names[0]}.", {**default, **(defaults or {})})

    def merged(self, *names: str) -> Fields:
        """This object with some of its nested objects laid flat, for formats that nest what others do not."""
        flat = dict(self._data)
        for name in names:
            nested = self.child(name)
            flat.update(nested.entries())
        return Fields(flat, self.where, self._defaults, self.used)

    def integers(
        self, *names: str, low: int = 0, high: int = _BIGGEST, longest: int = 4096, null: int | None = None
    ) -> tuple[int, ...]:
        """A list of whole numbers; absent counts as empty. `null`: what an entry of null stands for, if it may be."""
        return tuple(
            Fields({"entry": value}, f"{self.where}{self._named(names)}: ").integer(
                "entry", default=null, low=low, high=high
            )
            for value in self._list(names, longest)
        )

    def texts(self, *names: str, longest: int = 65536) -> tuple[str, ...]:
        """A list of texts; absent counts as empty."""
        values = self._list(names, longest)
        for value in values:
            if not isinstance(value, str):
                raise self.wrong(self._named(names), value, "a list of texts")
        return tuple(values)

    def objects(self, *names: str, longest: int = 4096) -> tuple[Fields, ...]:
        """A list of objects; absent counts as empty."""
        found = []
        for index, value in enumerate(self._list(names, longest)):
            if not isinstance(value, Mapping):
                raise self.wrong(self._named(names), value, "a list of objects")
            found.append(Fields(value, f"{self.where}{self._named(names)}[{index}]."))
        return tuple(found)

    def _list(self, names: tuple[str, ...], longest: int) -> list[Any]:
        value = self.raw(*names)
        if value is None:
            return []
        if not isinstance(value, (list, tuple)) or len(value) > longest:
            raise self.wrong(self._named(names), value, f"a list of at most {longest} entries")
        return list(value)
