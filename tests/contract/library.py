"""What a library defines, read from its sources: modules, classes with what they inherit, signatures."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final

Method = ast.FunctionDef | ast.AsyncFunctionDef

_NO_FIELDS: Final = {"object", "ABC", "abc.ABC", "BaseModel", "Protocol", "Generic", "Enum", "str", "Exception"}
"""Bases from elsewhere that add neither methods that are looked for nor parameters."""

_OPTIONAL: Final = re.compile(r"Optional\[(.*)\]|(.*) \| None")


@dataclass(frozen=True)
class Call:
    """What is passed to a callable. is_complete: whether that is all, without *args and **kwargs."""

    count: int
    keywords: tuple[str, ...]
    is_complete: bool = True


@dataclass(frozen=True)
class Signature:
    """What a callable takes; `positional` and `keywords` without self."""

    positional: tuple[str, ...]
    keywords: frozenset[str]
    required: frozenset[str] = frozenset()
    any_positional: bool = False
    any_keyword: bool = False

    def problem(self, call: Call) -> str | None:
        """Why a call fails, or None."""
        if call.count > len(self.positional) and not self.any_positional:
            return f"takes {len(self.positional)} positional arguments, not {call.count}"
        unknown = [name for name in call.keywords if name not in self.keywords and not self.any_keyword]
        if unknown:
            return f"has no parameter {unknown[0]}"
        missing = self.required - {*self.positional[: call.count], *call.keywords}
        return f"requires an argument {min(missing)}" if missing and call.is_complete else None


def signature(function: Method, *, bound: bool) -> Signature:
    """The signature of a function; bound: without its first parameter."""
    args = function.args
    positional = [one.arg for one in (*args.posonlyargs, *args.args)][1 if bound else 0 :]
    keywords = {*positional, *(one.arg for one in args.kwonlyargs)} - {one.arg for one in args.posonlyargs}
    without_default = [one.arg for one in (*args.posonlyargs, *args.args)][: -len(args.defaults) or None]
    without_default += [
        one.arg for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None
    ]
    return Signature(
        tuple(positional),
        frozenset(keywords),
        frozenset(without_default) & {*positional, *keywords},
        args.vararg is not None,
        args.kwarg is not None,
    )


@dataclass(frozen=True)
class Fact:
    """What is known of a name of a library.

    is_certain: False where the name may exist, in a base class of another package or in compiled code.
    abstract: the methods that a class leaves to its subclasses.
    """

    exists: bool
    is_certain: bool = True
    signature: Signature | None = None
    abstract: frozenset[str] = frozenset()


@dataclass
class Module:
    """A module, with what its statements bind, however deep they stand in `if`, `try` and `with`."""

    name: str
    bound: dict[str, ast.stmt | tuple[str, str | None]] = field(default_factory=dict)
    """A statement, or where an import takes the name from: a module and a name, None for the module itself."""
    stars: list[str] = field(default_factory=list)
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))

    @cached_property
    def texts(self) -> frozenset[str]:
        """All string constants."""
        values = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        return frozenset(value for value in values if isinstance(value, str))


@dataclass(frozen=True, eq=False)
class Class:
    """A class, or an instance of it."""

    module: Module
    node: ast.ClassDef
    is_instance: bool = False

    @property
    def members(self) -> dict[str, ast.stmt]:
        """Methods and attributes of the class, and what its methods assign to self."""
        return _members(self.node)


@cache
def _members(node: ast.ClassDef) -> dict[str, ast.stmt]:
    found = {name: statement for statement in node.body for name in _names_bound_by(statement)}
    for method in node.body:
        if isinstance(method, Method) and method.args.args:
            for statement in _statements(method.body):
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    for name in _attributes_set_by(statement, method.args.args[0].arg):
                        found.setdefault(name, statement)
    return found


@dataclass(frozen=True, eq=False)
class Member:
    """What a statement binds: a function, a variable or an attribute. owner: the class that has it."""

    module: Module
    statement: ast.stmt
    owner: Class | None = None

    @property
    def signature(self) -> Signature | None:
        """Of a function, as it is called on what it was looked up on."""
        if not isinstance(self.statement, Method):
            return None
        kinds = {ast.unparse(one) for one in self.statement.decorator_list}
        on_instance = self.owner is not None and self.owner.is_instance
        return signature(self.statement, bound="staticmethod" not in kinds and (on_instance or "classmethod" in kinds))


class Elsewhere:
    """What is compiled, or belongs to another package: it exists, and no more is known of it."""


ELSEWHERE: Final = Elsewhere()
Found = Module | Class | Member | Elsewhere


class Library:
    """One version of a package, from an archive of its sources."""

    def __init__(self, package: str, archive: Path) -> None:
        self.package = package
        self._archive = zipfile.ZipFile(archive)
        self._files = frozenset(self._archive.namelist())
        self._modules: dict[str, Module | None] = {}

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def find(self, path: str) -> Found | None:
        """What a dotted path leads to, `()` being a call of what stands before; None if there is no such name."""
        first, *rest = path.replace("()", ".()").split(".")
        found: Found | None = self.module(first)
        for name in rest:
            if found is None or isinstance(found, Elsewhere):
                return found
            found = self._called(found) if name == "()" else self._named(found, name)
        return found

    def fact(self, path: str) -> Fact:
        """What is known of a path. After `#` stands a string that a module contains."""
        path, _, text = path.partition("#")
        found = self.find(path)
        if text:
            return Fact(exists=isinstance(found, Module) and text in found.texts)
        abstract = self.abstract(found) if isinstance(found, Class) else set()
        return Fact(found is not None, not isinstance(found, Elsewhere), self.signature(found), frozenset(abstract))

    def signature(self, found: Found | None) -> Signature | None:
        """Of a function or a class; None where it is not known."""
        if isinstance(found, Member):
            return found.signature
        return self._constructor(found) if isinstance(found, Class) and not found.is_instance else None

    def fields(self, owner: Class) -> dict[str, ast.AnnAssign]:
        """The annotated fields of a class: those that it inherits first."""
        found: dict[str, ast.AnnAssign] = {}
        for base in reversed([one for one in self._line(owner) if isinstance(one, Class)]):
            for statement in base.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    found[statement.target.id] = statement
        return found

    def abstract(self, owner: Class) -> set[str]:
        """The methods that a class leaves to its subclasses."""
        seen: dict[str, bool] = {}
        for base in self._line(owner):
            if isinstance(base, Class):
                for name, statement in base.members.items():
                    seen.setdefault(name, isinstance(statement, Method) and _is_abstract(statement))
        return {name for name, is_abstract in seen.items() if is_abstract}

    def _named(self, found: Module | Class | Member, name: str) -> Found | None:
        if isinstance(found, Module):
            return self._in_module(found, name, set())
        if isinstance(found, Member):
            value = self._value(found)
            return self._named(value, name) if isinstance(value, Class) else value
        # Every class has some special methods.
        is_open = name.startswith("__")
        for base in self._line(found):
            if isinstance(base, Elsewhere):
                is_open = True
            elif name in base.members:
                return Member(base.module, base.members[name], found)
        return ELSEWHERE if is_open else None

    def _called(self, found: Module | Class | Member) -> Found:
        if isinstance(found, Class):
            return Class(found.module, found.node, is_instance=True)
        if isinstance(found, Member) and isinstance(found.statement, ast.FunctionDef):
            return self._annotated(found.module, found.statement.returns)
        return ELSEWHERE

    def _value(self, found: Member) -> Found:
        """What a property, an attribute or a variable is, as far as its annotation or its constructor says."""
        statement = found.statement
        if isinstance(statement, Method):
            return self._annotated(found.module, statement.returns)
        if isinstance(statement, ast.AnnAssign):
            return self._annotated(found.module, statement.annotation)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            made = self._expression(found.module, statement.value.func)
            return self._called(made) if isinstance(made, Class) else ELSEWHERE
        return ELSEWHERE

    def _annotated(self, module: Module, annotation: ast.expr | None) -> Found:
        if annotation is None:
            return ELSEWHERE
        text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
        match = _OPTIONAL.fullmatch(str(text))
        text = next(filter(None, match.groups())) if match else str(text)
        found = self._expression(module, ast.parse(text, mode="eval").body)
        return self._called(found) if isinstance(found, Class) else ELSEWHERE

    def _constructor(self, owner: Class) -> Signature | None:
        """Its `__init__`, or its fields: those of a data class or of pydantic's."""
        names: list[str] = []
        for base in self._line(owner):
            if isinstance(base, Elsewhere):
                return None
            init = base.members.get("__init__")
            if isinstance(init, ast.FunctionDef):
                return signature(init, bound=True)
            own = [
                one.target.id
                for one in base.node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
            names = [*own, *(name for name in names if name not in own)]
        return Signature(tuple(names), frozenset(names))

    def _line(self, owner: Class) -> Iterator[Class | Elsewhere]:
        """A class and what it inherits from, nearest first."""
        yield owner
        for base in owner.node.bases:
            found = self._expression(owner.module, base)
            if isinstance(found, Class):
                yield from self._line(found)
            elif ast.unparse(base).partition("[")[0] not in _NO_FIELDS:
                yield ELSEWHERE

    def _expression(self, module: Module, node: ast.expr) -> Found | None:
        node = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(node, ast.Attribute):
            owner = self._expression(module, node.value)
            return self._named(owner, node.attr) if isinstance(owner, Module | Class | Member) else owner
        return self._in_module(module, node.id, set()) if isinstance(node, ast.Name) else ELSEWHERE

    def _in_module(self, module: Module, name: str, seen: set[tuple[str, str]]) -> Found | None:
        if (module.name, name) in seen:
            return None
        seen.add((module.name, name))
        source = module.bound.get(name)
        if isinstance(source, ast.ClassDef):
            return Class(module, source)
        if isinstance(source, ast.stmt):
            return Member(module, source)
        found = self._imported(*source, seen) if source is not None else None
        for star in () if found is not None else module.stars:
            inner = self.module(star)
            found = found or (self._in_module(inner, name, seen) if inner is not None else None)
        return found or self.module(f"{module.name}.{name}")

    def _imported(self, module: str, name: str | None, seen: set[tuple[str, str]]) -> Found | None:
        if module.partition(".")[0] != self.package:
            return ELSEWHERE
        found = self.module(module)
        if name is None or found is None:
            return found or ELSEWHERE
        return self._in_module(found, name, seen)

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None if there is no source of it."""
        if name not in self._modules:
            path = name.replace(".", "/")
            files = (f"{path}/__init__.py", f"{path}.py", f"{path}.pyi")
            file = next((one for one in files if one in self._files), None)
            if file is not None:
                self._modules[name] = self._read(name, file)
            else:
                is_folder = any(one.startswith(f"{path}/") for one in self._files)
                self._modules[name] = Module(name) if is_folder else None
        return self._modules[name]

    def _read(self, name: str, file: str) -> Module:
        module = Module(name, tree=ast.parse(self._archive.read(file)))
        package = name if file.endswith("/__init__.py") else name.rpartition(".")[0]
        for statement in _statements(module.tree.body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    module.bound[alias.asname or whole] = (whole, None)
            elif isinstance(statement, ast.ImportFrom):
                source = _absolute(statement, package)
                for alias in statement.names:
                    if alias.name == "*":
                        module.stars.append(source)
                    else:
                        module.bound[alias.asname or alias.name] = (source, alias.name)
            else:
                # The last one, as in Python: overloads stand in front of the function.
                module.bound.update(dict.fromkeys(_names_bound_by(statement), statement))
        return module


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    if not statement.level:
        return statement.module or ""
    parents = package.split(".")
    above = parents[: len(parents) - statement.level + 1]
    return ".".join([*above, *([statement.module] if statement.module else [])])


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, also those inside of others, but for the bodies of functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, Method | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, name, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _names_bound_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, Method | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.AnnAssign | ast.Assign):
        for target in statement.targets if isinstance(statement, ast.Assign) else (statement.target,):
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _attributes_set_by(statement: ast.Assign | ast.AnnAssign, own: str) -> Iterator[str]:
    for target in statement.targets if isinstance(statement, ast.Assign) else (statement.target,):
        for node in ast.walk(target):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
                yield node.attr


def _is_abstract(function: Method) -> bool:
    return any(ast.unparse(one).endswith("abstractmethod") for one in function.decorator_list)
