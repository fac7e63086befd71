"""Frozen data classes that cost little at start-up.

`dataclasses.dataclass(frozen=True)` compiles six methods for each class: 0.5 ms, and a command imports over a hundred
classes. Here only `__init__` is compiled (0.1 ms); the other methods are closures. That nothing assigns to a field is
checked by mypy, for which this is the decorator of the standard library, and not again at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, frozen, kw_only=False):
        """`dataclasses.dataclass(frozen=True)`, except that assigning to a field raises nothing at run time."""
        if not frozen:
            raise TypeError("classes that are not frozen use dataclasses.dataclass")

        def decorate(cls):
            dataclasses.dataclass(eq=False, repr=False, kw_only=kw_only)(cls)
            fields = dataclasses.fields(cls)
            compared = attrgetter(*(field.name for field in fields if field.compare))
            shown = tuple(field.name for field in fields if field.repr)

            def __eq__(self, other):
                return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

            def __hash__(self):
                return hash(compared(self))

            def __repr__(self):
                values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
                return f"{self.__class__.__qualname__}({values})"

            for method in (__eq__, __hash__, __repr__):
                if method.__name__ not in cls.__dict__:
                    setattr(cls, method.__name__, method)
            return cls

        return decorate
