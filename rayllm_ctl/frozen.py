"""Frozen data classes that cost little at start-up.

`dataclasses.dataclass(frozen=True)` compiles six methods for each class: 0.5 ms, and a command imports two hundred
classes. Here only `__init__` is compiled (0.1 ms), and only for a class with many instances: most have one or two, or
none, being for parts of a spec that most services do not have. The other methods are closures. mypy checks that nothing
assigns to a field, for which this is the decorator of the standard library, and not again at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    import functools
    import inspect
    import itertools
    from operator import attrgetter

    _MARKERS = ("ClassVar", "InitVar", "KW_ONLY")

    _FEW = 25
    """Instances of a class for which compiling its `__init__` would take longer than it saves."""

    def dataclass(*, frozen, kw_only=False):
        """`dataclasses.dataclass(frozen=True)`, except that assigning to a field raises nothing at run time."""
        if not frozen:
            raise TypeError("classes that are not frozen use dataclasses.dataclass")

        def decorate(cls):
            # Where there is no text, dataclasses would write the signature, which takes longer than all the rest.
            cls.__doc__ = cls.__doc__ or cls.__name__
            annotations = inspect.get_annotations(cls)
            every = " ".join(annotations.values())
            if not any(marker in every for marker in _MARKERS):  # dataclasses would search each text three times
                cls.__annotations__ = dict.fromkeys(annotations, object)
            dataclasses.dataclass(init=False, eq=False, repr=False, kw_only=kw_only)(cls)
            cls.__annotations__ = annotations
            for name, text in annotations.items():
                cls.__dataclass_fields__[name].type = text

            def __init__(self, *args, **kwargs):
                cls.__init__ = _plain_init(cls)
                cls.__init__(self, *args, **kwargs)

            def __eq__(self, other):
                compared = _compared(cls)
                return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

            def __hash__(self):
                return hash(_compared(cls)(self))

            def __repr__(self):
                shown = (field.name for field in dataclasses.fields(cls) if field.repr)
                values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
                return f"{self.__class__.__qualname__}({values})"

            cls.__init__ = __init__
            for method in (__eq__, __hash__, __repr__):
                if method.__name__ not in cls.__dict__:
                    setattr(cls, method.__name__, method)
            return cls

        return decorate

    @functools.cache
    def _compared(cls):
        """What reads the fields of an instance that equality and hash follow."""
        return attrgetter(*(field.name for field in dataclasses.fields(cls) if field.compare))

    def _plain_init(cls):
        """An `__init__` for a few instances. More of them, and wrong arguments, are left to the compiled one."""
        fields = [field for field in dataclasses.fields(cls) if field.init]
        positional = [field.name for field in fields if not field.kw_only]
        values = {field.name: field.default for field in fields}
        factories = {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING}
        required = {name for name, value in values.items() if value is dataclasses.MISSING} - factories.keys()
        calls = itertools.count()
        completed = hasattr(cls, "__post_init__")

        def __init__(self, *args, **kwargs):
            given = dict(zip(positional, args, strict=False)) | kwargs
            fits = len(given) == len(args) + len(kwargs) and required <= given.keys() <= values.keys()
            if not fits or next(calls) == _FEW:
                cls.__init__ = _compiled_init(cls)
                return cls.__init__(self, *args, **kwargs)
            made = {name: make() for name, make in factories.items() if name not in given}
            for name, value in (values | made | given).items():
                setattr(self, name, value)
            if completed:
                self.__post_init__()
            return None

        return __init__

    def _compiled_init(cls):
        """The `__init__` that dataclasses would have made: a default factory is called for what is not given."""
        fields = dataclasses.fields(cls)
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
