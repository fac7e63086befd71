"""Which values the templates read, from their syntax trees: what is not read is nothing that a chart could offer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rayllm_ctl.render.templating import environment

if TYPE_CHECKING:
    from jinja2 import nodes

Tree = dict[str, Any]
"""Fields and what is read below them; an empty tree: the whole value. ITEMS: below elements of a list or mapping."""

ITEMS = "[]"

ValuePath = tuple[str, ...]
TemplateScope = Mapping[str, ValuePath]


@cache
def fields_read() -> Tree:
    """The values that the templates read, by the names of the dataclasses' fields."""
    env = environment()
    # A batch job is none of the chart's objects.
    names = env.list_templates(filter_func=lambda name: not name.startswith((".", "batch/")))
    parsed = [_parse(name) for name in names]
    reader = _Reader({macro.name: macro for template in parsed for macro in template.find_all(_nodes().Macro)})
    for template in parsed:
        reader.read([node for node in template.body if not isinstance(node, _nodes().Macro)], {})
    return reader.tree


def _nodes() -> Any:
    from jinja2 import nodes

    return nodes


def _parse(name: str) -> nodes.Template:
    env = environment()
    assert env.loader is not None
    return env.parse(env.loader.get_source(env, name)[0])


class _Reader:
    """Follows every expression back to the value that it is read from, through loops and macros."""

    def __init__(self, macros: Mapping[str, nodes.Macro]) -> None:
        self.tree: Tree = {}
        self._macros = macros

    def read(self, body: list[nodes.Node], scope: TemplateScope) -> None:
        """Note what `body` reads; `scope`: what its variables stand for."""
        for node in body:
            self._node(node, scope)

    def _node(self, node: nodes.Node, scope: TemplateScope) -> None:
        kinds = _nodes()
        if isinstance(node, kinds.For):
            self._loop(node, scope)
        elif isinstance(node, kinds.Call) and isinstance(node.node, kinds.Name) and node.node.name in self._macros:
            macro = self._macros[node.node.name]
            given = {param.name: self._path(arg, scope) for param, arg in zip(macro.args, node.args, strict=True)}
            for arg in node.args:
                if self._path(arg, scope) is None:
                    self._node(arg, scope)
            self.read(macro.body, {name: path or () for name, path in given.items()})
        elif (path := self._path(node, scope)) is not None:
            self._mark(path)
        else:
            self.read(list(node.iter_child_nodes()), scope)

    def _loop(self, node: nodes.For, scope: TemplateScope) -> None:
        kinds, over = _nodes(), node.iter
        if isinstance(over, kinds.Filter):
            over = over.node
        elif isinstance(over, kinds.Call):
            over = over.node.node
        path = self._path(over, scope) or ()
        self._mark(path)
        targets: Any = node.target.items if isinstance(node.target, kinds.Tuple) else [node.target]
        *keys, item = (target.name for target in targets)
        self.read(node.body, {**scope, **dict.fromkeys(keys, ()), item: (*path, ITEMS) if path else ()})

    def _path(self, node: nodes.Node, scope: TemplateScope) -> ValuePath | None:
        """The value that an expression is; None if it is made from others. An empty path: of no interest."""
        kinds = _nodes()
        if isinstance(node, kinds.Name):
            name: str = node.name
            return scope.get(name, (name,))
        if isinstance(node, kinds.Getattr):
            path = self._path(node.node, scope)
            return (*path, node.attr) if path else path
        return None

    def _mark(self, path: ValuePath) -> None:
        tree = self.tree
        for name in path:
            tree = tree.setdefault(name, {})
