"""Frozen data classes that cost little at start-up.

`dataclasses.dataclass(frozen=True)` compiles six methods for each class: 0.5 ms, and a command imports over a hundred
classes. Here only `__init__` is compiled (0.1 ms), when the first instance is made: many classes are for parts of a
spec that most services do not have. The other methods are closures. mypy checks that nothing assigns to a field, for
which this is the decorator of the standard library, and not again at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    import inspect
    from operator import attrgetter

    _MARKERS = ("ClassVar", "InitVar", "KW_ONLY")

    def dataclass(*, frozen, kw_only=False):
        """`dataclasses.dataclass(frozen=True)`, except that assigning to a field raises nothing at run time."""
        if not frozen:
            raise TypeError("classes that are not frozen use dataclasses.dataclass")

        def decorate(cls):
            # Where there is no text, dataclasses would write the signature, which takes longer than all the rest.
            cls.__doc__ = cls.__doc__ or cls.__name__
            annotations = inspect.get_annotations(cls)
            cls.__annotations__ = {name: _without_text(text) for name, text in annotations.items()}
            dataclasses.dataclass(init=False, eq=False, repr=False, kw_only=kw_only)(cls)
            cls.__annotations__ = annotations
            for name, text in annotations.items():
                cls.__dataclass_fields__[name].type = text
            fields = dataclasses.fields(cls)
            compared = attrgetter(*(field.name for field in fields if field.compare))
            shown = tuple(field.name for field in fields if field.repr)

            def __init__(self, *args, **kwargs):
                cls.__init__ = _compiled_init(cls, fields)
                cls.__init__(self, *args, **kwargs)

            def __eq__(self, other):
                return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

            def __hash__(self):
                return hash(compared(self))

            def __repr__(self):
                values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
                return f"{self.__class__.__qualname__}({values})"

            cls.__init__ = __init__
            for method in (__eq__, __hash__, __repr__):
                if method.__name__ not in cls.__dict__:
                    setattr(cls, method.__name__, method)
            return cls

        return decorate

    def _without_text(annotation):
        """An annotation for dataclasses, which would search a text three times for its own markers."""
        return annotation if any(marker in annotation for marker in _MARKERS) else object

    def _compiled_init(cls, fields):
        """The `__init__` that dataclasses would have made: a default factory is called for what is not given."""
        names = {"_missing": dataclasses.MISSING}
        positional, keywords, body = [], [], []
        for field in fields:
            name, value = field.name, field.name
            parameter = name
            if field.default_factory is not dataclasses.MISSING:
                names[f"_make_{name}"] = field.default_factory
                parameter = f"{name}=_missing"
                value = f"_make_{name}() if {name} is _missing else {name}"
            elif field.default is not dataclasses.MISSING:
                names[f"_default_{name}"] = field.default
                parameter = f"{name}=_default_{name}"
            if field.init:
                (keywords if field.kw_only else positional).append(parameter)
                body.append(f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
        exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102  names of fields alone
        init = names["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        return init
