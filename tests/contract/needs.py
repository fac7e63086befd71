"""What the code in the pods needs of Ray, vLLM and transformers, found in its source.

Followed are imports, also those inside of functions, strings that name something of a library, the attributes of
what was imported, calls of it, and what classes inherit. The type of a variable is that of its annotation, its
`isinstance` or its constructor; where the source states none it stands in `types.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.contract.library import Call, Fact, Method, Signature, signature
from tests.contract.types import TEXTS, TYPES

SERVING: Final = Path(__file__).parents[2] / "rayllm_ctl/serving"
LIBRARIES: Final = ("ray", "vllm", "transformers")

_OWN: Final = "rayllm_ctl.serving"
_DOTTED: Final = re.compile(rf"(?:{'|'.join(LIBRARIES)})(?:\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class Need:
    """A name of a library that a line of ours needs.

    paths: where it may be; any of them is enough. call: positional arguments and keywords of a call. overridden: the
    signature of our method of that name, which takes what the library passes to its own. bases, methods: of a class of
    ours, what it inherits from and what it has itself.
    """

    module: str
    line: int
    paths: tuple[str, ...]
    call: Call | None = None
    overridden: Signature | None = None
    bases: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()

    @property
    def library(self) -> str:
        """The package of the name."""
        return self.paths[0].partition(".")[0]

    def problem(self, version: str, facts: Mapping[str, Fact]) -> str | None:
        """What is wrong with the name in a version, such as Ray 2.60.0, or None."""
        found = [facts[path] for path in self.paths if facts[path].exists]
        certain = next((fact for fact in found if fact.is_certain), None)
        name = self.paths[0]
        if self.overridden is not None:
            takes = certain.signature if certain else None
            given = takes and Call(len(takes.positional), tuple(sorted(takes.keywords)), is_complete=False)
            problem = self.overridden.problem(given) if given else None
            problem = problem and f"{name} has other parameters than ours, which {problem}"
        elif not found:
            problem = f"{name} does not exist"
        elif certain is None and _is_private(name.rpartition(".")[2]):
            problem = f"{name} may not exist: state its type in tests/contract/types.py"
        elif certain is not None and self.call is not None and certain.signature is not None:
            problem = certain.signature.problem(self.call)
            problem = problem and f"{name} {problem}"
        else:
            problem = None
        return problem and f"rayllm_ctl/serving/{self.module}:{self.line}: in {version}, {problem}"


@cache
def needs(module: str) -> tuple[Need, ...]:
    """What a module of ours needs; its path below serving/."""
    return tuple(_Reader(module).needs())


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of ours that a module imports, also inside of functions."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OWN):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith(_OWN)}
    return frozenset(file for name in found if (file := _file(name)) is not None)


def closure(roots: tuple[str, ...], without: tuple[str, ...] = ()) -> set[str]:
    """The modules `roots` and all that they import; `without` are not followed."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module not in seen and module not in without:
            seen.add(module)
            waiting += imported(module)
    return seen


def modules() -> list[str]:
    """All modules of ours by their paths below serving/."""
    return sorted(path.relative_to(SERVING).as_posix() for path in SERVING.rglob("*.py"))


def _file(name: str) -> str | None:
    path = name.removeprefix(_OWN).strip(".").replace(".", "/")
    known = (f"{path}.py", f"{path}/__init__.py".lstrip("/"))
    return next((file for file in known if (SERVING / file).is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((SERVING / module).read_text(encoding="utf-8"))


@cache
def _own_names() -> frozenset[str]:
    """Attributes that our own code defines somewhere."""
    found: set[str] = set()
    for module in modules():
        for node in ast.walk(_tree(module)):
            if isinstance(node, Method | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                found.add(node.attr)
    return frozenset(found)


@cache
def _used_names() -> frozenset[str]:
    """Attributes that our own code uses somewhere."""
    return frozenset(
        node.attr
        for module in modules()
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


class _Reader:
    """Of one module."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._tree = _tree(module)
        self._stated: Mapping[str, str | tuple[str, ...]] = TYPES.get(module, {})
        self._texts = TEXTS.get(module, {})
        self._names: dict[str, str] = {}
        self._classes: dict[ast.AST, ast.ClassDef] = {}

    def needs(self) -> Iterator[Need]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ClassDef):
                self._classes |= dict.fromkeys(ast.walk(node), node)
            yield from self._import(node)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.arg) and node.annotation is not None and (kind := self._class_of(node.annotation)):
                self._names.setdefault(node.arg, f"{kind}()")
        for node in ast.walk(self._tree):
            yield from self._of(node)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in self._texts:
                yield Need(self._module, node.lineno, (self._texts[node.value],))

    def _import(self, node: ast.AST) -> Iterator[Need]:
        if isinstance(node, ast.ImportFrom) and _is_theirs(node.module or ""):
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                self._names[alias.asname or alias.name] = path
                yield Need(self._module, node.lineno, (path,))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_theirs(alias.name):
                    self._names[alias.asname or alias.name.partition(".")[0]] = alias.name
                    yield Need(self._module, node.lineno, (alias.name,))

    def _of(self, node: ast.AST) -> Iterator[Need]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield Need(self._module, node.lineno, (node.value,))
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, self._paths(node), node.value, node.attr)
        elif isinstance(node, ast.Call):
            name = node.args[1] if _is_getattr(node) else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                paths = tuple(f"{path}.{name.value}" for path in self._paths(node.args[0]))
                yield from self._attribute(node, paths, node.args[0], name.value)
            if paths := self._paths(node.func):
                plain = [one for one in node.args if not isinstance(one, ast.Starred)]
                words = tuple(word.arg for word in node.keywords if word.arg is not None)
                is_complete = len(plain) + len(words) == len(node.args) + len(node.keywords)
                yield Need(self._module, node.lineno, paths, Call(len(plain), words, is_complete))
        elif isinstance(node, ast.ClassDef):
            yield from self._subclass(node)

    def _attribute(self, node: ast.expr, paths: tuple[str, ...], value: ast.expr, name: str) -> Iterator[Need]:
        if paths:
            yield Need(self._module, node.lineno, paths)
        elif _is_private(name) and not _is_self(value) and name not in _own_names():
            # Of whose type nothing is said: no version has it.
            yield Need(self._module, node.lineno, (f"{self._only_library()}.?.{name}",))

    def _only_library(self) -> str:
        return next((path.partition(".")[0] for path in self._names.values()), "ray")

    def _subclass(self, node: ast.ClassDef) -> Iterator[Need]:
        base = next((path for one in node.bases for path in self._paths(one)), None)
        if base is None:
            return
        yield Need(self._module, node.lineno, (base,), bases=(base,), methods=_own_members(node))
        for method in node.body:
            if isinstance(method, Method) and method.name != "__init__":
                path = f"{base}().{method.name}"
                yield Need(self._module, method.lineno, (path,), overridden=signature(method, bound=True))
                if method.name not in _used_names():
                    # Nothing but the library calls it.
                    yield Need(self._module, method.lineno, (self._called_by_name(method.name) or path,))
            elif isinstance(method, ast.Assign):
                yield Need(self._module, method.lineno, (f"{base}().{ast.unparse(method.targets[0])}",))

    def _called_by_name(self, method: str) -> str | None:
        stated = self._stated.get(f"def {method}")
        return stated if isinstance(stated, str) else None

    def _paths(self, node: ast.expr) -> tuple[str, ...]:
        """Dotted paths of what an expression is, as Library.find takes them; none if it is not of a library."""
        stated = self._stated.get(ast.unparse(node)) if self._stated else None
        if stated is not None:
            return (stated,) if isinstance(stated, str) else stated
        if isinstance(node, ast.Name):
            return (self._names[node.id],) if node.id in self._names else ()
        if isinstance(node, ast.Attribute):
            inherited = self._inherited(node)
            return inherited or tuple(f"{path}.{node.attr}" for path in self._paths(node.value))
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "super":
                return self._bases(node)
            return tuple(f"{path}()" for path in self._paths(node.func))
        return ()

    def _inherited(self, node: ast.Attribute) -> tuple[str, ...]:
        """`self.name` that no class of ours has."""
        if not _is_self(node.value) or node.attr in _own_members(self._classes.get(node)):
            return ()
        return tuple(f"{path}.{node.attr}" for path in self._bases(node))

    def _bases(self, node: ast.AST) -> tuple[str, ...]:
        owner = self._classes.get(node)
        return tuple(f"{path}()" for one in (owner.bases if owner else ()) for path in self._paths(one))

    def _class_of(self, annotation: ast.expr) -> str | None:
        node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        return next(iter(self._paths(node)), None)


def _own_members(owner: ast.ClassDef | None) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(owner) if owner else ():
        if isinstance(node, Method):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _is_getattr(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) > 1


def _is_theirs(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES
