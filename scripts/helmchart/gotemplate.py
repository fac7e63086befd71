"""From the Jinja templates of `render` to the Go templates of the chart.

It translates what those templates consist of and raises Untranslatable for anything else: text, `if`, `for`, macros
with positional arguments, the filters of the project. A statement of either language has a line of its own. In Go's
output a newline comes before each line, not after it: so `{{-` at the start of a statement takes just its line away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jinja2
from jinja2 import nodes

from rayllm_ctl.model.text.json_form import camel

PREFIX = "rayllm."
"""Of the names of all definitions: those of a chart and of its subcharts are one namespace."""

COMPUTED: Mapping[str, str] = {
    "name": f'(include "{PREFIX}name" ROOT)',
    "labels": f'(include "{PREFIX}labels" ROOT | fromJson)',
    "serve_config": f'(include "{PREFIX}serveConfig" ROOT)',
}
"""Values that the chart does not take as they are: definitions in _helpers.tpl."""

_COMPARISONS = {"eq": "eq", "ne": "ne", "gt": "gt", "gteq": "ge", "lt": "lt", "lteq": "le"}
_ARITHMETIC = {nodes.Add: "add", nodes.Sub: "sub", nodes.Mul: "mul"}
_COMMENT = re.compile(r"\{#-?\s*(.*?)\s*-?#\}", re.S)


class Untranslatable(Exception):
    """A template uses what this translation does not know."""


@dataclass(frozen=True)
class Macro:
    """A macro of the Jinja templates. rooted: it, or a macro that it calls, reads values beside its parameters."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[nodes.Node, ...]
    rooted: bool

    @property
    def definition(self) -> str:
        return PREFIX + camel(self.name)


def read(source: str) -> nodes.Template:
    """The syntax tree of a template; comments become assignments, since Jinja drops them."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)  # noqa: S701
    kept = _COMMENT.sub(lambda found: f"{{% set comment = {json.dumps(found[1])} %}}", source)
    return environment.parse(kept)


def macros_of(templates: Iterable[nodes.Template]) -> dict[str, Macro]:
    """The macros that templates define, by name. Raises Untranslatable where two have the same name."""
    found: dict[str, nodes.Macro] = {}
    for template in templates:
        for macro in template.find_all(nodes.Macro):
            if macro.name in found:
                raise Untranslatable(f"two macros are named {macro.name}")
            found[macro.name] = macro
    return {
        name: Macro(name, tuple(p.name for p in macro.args), tuple(macro.body), _rooted(macro, found))
        for name, macro in found.items()
    }


def _rooted(macro: nodes.Macro, macros: Mapping[str, nodes.Macro]) -> bool:
    own = {name.name for name in macro.find_all(nodes.Name) if name.ctx != "load"} | {p.name for p in macro.args}
    used = {name.name for name in macro.find_all(nodes.Name) if name.ctx == "load"} - own
    return any(name not in macros or _rooted(macros[name], macros) for name in used)


def definition(macro: Macro, macros: Mapping[str, Macro]) -> str:
    """`macro` as a Go definition."""
    root = "$.root" if macro.parameters and macro.rooted else "$"
    writer = _Writer(macros, root, {name: f"$.{camel(name)}" for name in macro.parameters})
    writer.write(macro.body)
    return f'{{{{- define "{macro.definition}" }}}}{writer.text}\n{{{{- end }}}}\n'


def body(template: nodes.Template, macros: Mapping[str, Macro]) -> str:
    """What a template says outside of its macros."""
    writer = _Writer(macros, "$", {})
    writer.write([node for node in template.body if not isinstance(node, (nodes.Macro, nodes.FromImport))])
    return writer.text


@dataclass
class _Writer:
    """Writes Go text. root: where the chart's values are. scope: variables of macros and loops, as Go names them."""

    macros: Mapping[str, Macro]
    root: str
    scope: Mapping[str, str]
    text: str = ""
    at_start: bool = field(default=True)

    def write(self, body: Iterable[nodes.Node]) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    self._output(part)
            elif isinstance(node, nodes.If):
                self._if(node)
            elif isinstance(node, nodes.For):
                self._for(node)
            elif isinstance(node, nodes.Assign) and isinstance(node.node, nodes.Const):
                self._statement(f"/* {node.node.value} */", space="")
            elif not isinstance(node, (nodes.Macro, nodes.FromImport)):
                raise _unknown(node)

    def _output(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.TemplateData):
            for line in node.data.splitlines(keepends=True):
                self._inline(line.removesuffix("\n").replace("{{", '{{ "{{" }}'))
                self.at_start = line.endswith("\n")
        elif isinstance(node, nodes.Filter) and node.name == "indent":
            self._block(node.node, *(argument.value for argument in node.args))
        elif isinstance(node, nodes.Call):
            self._block(node, 0)
        else:
            self._inline(f"{{{{ {self._bare(node)} }}}}")

    def _inline(self, text: str) -> None:
        if self.at_start and text:
            self.text += "\n"
            self.at_start = False
        self.text += text

    def _block(self, call: nodes.Expr, depth: int) -> None:
        """The lines of a macro, indented as its call is."""
        pad = " " * depth
        if not (self.text.endswith(f"\n{pad}") if depth else self.at_start):
            raise Untranslatable(f"line {call.lineno}: a macro is indented by {depth}, its line is not")
        self.text = self.text.removesuffix(f"\n{pad}") if depth else self.text
        indented = f' | replace "\\n" "\\n{pad}"' if depth else ""
        self.text += f"\n{pad}{{{{- {self._bare(call)}{indented} }}}}"
        self.at_start = False

    def _statement(self, words: str, space: str = " ") -> None:
        if not self.at_start:
            raise Untranslatable(f"a statement in the middle of a line: {words}")
        self.text += f"\n{{{{- {words}{space}}}}}"

    def _if(self, node: nodes.If) -> None:
        self._statement(f"if {self._bare(node.test)}")
        self.write(node.body)
        for other in node.elif_:
            self._statement(f"else if {self._bare(other.test)}")
            self.write(other.body)
        if node.else_:
            self._statement("else")
            self.write(node.else_)
        self._statement("end")

    def _for(self, node: nodes.For) -> None:
        if node.else_ or node.test or node.recursive:
            raise _unknown(node)
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        names = {_name(target): f"${camel(_name(target))}" for target in targets}
        over = node.iter
        if len(names) == 2:
            over = _mapping(over)
        self._statement(f"range {', '.join(names.values())} := {self._bare(over)}")
        outer, self.scope = self.scope, {**self.scope, **names}
        self.write(node.body)
        self.scope = outer
        self._statement("end")

    def _bare(self, node: nodes.Node) -> str:
        """An expression as a whole pipeline: without the parentheses that it needs as an argument."""
        text = self._expression(node)
        return text[1:-1] if text.startswith("(") and _matching(text) == len(text) - 1 else text

    def _expression(self, node: nodes.Node) -> str:
        if isinstance(node, nodes.Name):
            return self._variable(node.name)
        if isinstance(node, nodes.Getattr):
            return f"{self._expression(node.node)}.{camel(node.attr)}"
        if isinstance(node, nodes.Const):
            return "nil" if node.value is None else json.dumps(node.value)
        if isinstance(node, nodes.Dict) and not node.items:
            return "(dict)"
        if isinstance(node, nodes.List):
            return _call("list", map(self._expression, node.items))
        if isinstance(node, nodes.Filter):
            return self._filter(node)
        if isinstance(node, nodes.Call):
            return self._include(node)
        if isinstance(node, (nodes.And, nodes.Or)):
            word = "and" if isinstance(node, nodes.And) else "or"
            return _call(word, map(self._expression, (node.left, node.right)))
        if isinstance(node, nodes.Not):
            return _call("not", [self._expression(node.node)])
        if isinstance(node, nodes.Test) and node.name == "none":
            return _call('kindIs "invalid"', [self._expression(node.node)])
        if isinstance(node, nodes.Compare) and len(node.ops) == 1:
            return self._comparison(node.expr, node.ops[0])
        if isinstance(node, nodes.Concat):
            return _call(f'printf "{"%v" * len(node.nodes)}"', map(self._expression, node.nodes))
        if type(node) in _ARITHMETIC:
            return _call(_ARITHMETIC[type(node)], map(self._expression, (node.left, node.right)))  # type: ignore[attr-defined]
        raise _unknown(node)

    def _variable(self, name: str) -> str:
        if name in self.scope:
            return self.scope[name]
        computed = COMPUTED.get(name)
        return computed.replace("ROOT", self.root) if computed else f"{self.root}.Values.{camel(name)}"

    def _filter(self, node: nodes.Filter) -> str:
        assert node.node is not None
        if node.name == "plain":  # Helm's numbers have no other form
            return self._expression(node.node)
        if node.name in ("yaml", "string"):
            return _call(f'include "{PREFIX}{node.name}"', [self._expression(node.node)])
        raise _unknown(node)

    def _comparison(self, left: nodes.Expr, right: nodes.Operand) -> str:
        sides = [self._expression(left), self._expression(right.expr)]
        if isinstance(right.expr, nodes.Const) and isinstance(right.expr.value, int):
            sides[0] = _call("int", [sides[0]])  # Helm reads numbers as floats, which Go does not compare with integers
        if right.op == "in":
            return _call("has", sides)
        return _call(_COMPARISONS[right.op], sides)

    def _include(self, node: nodes.Call) -> str:
        macro = self.macros.get(_name(node.node))
        if macro is None or node.kwargs or len(node.args) != len(macro.parameters):
            raise _unknown(node)
        if not macro.parameters:
            return _call(f'include "{macro.definition}"', [self.root])
        given = [
            f'"{camel(name)}" {self._expression(arg)}' for name, arg in zip(macro.parameters, node.args, strict=True)
        ]
        root = [f'"root" {self.root}'] if macro.rooted else []
        return _call(f'include "{macro.definition}"', [_call("dict", [*root, *given])])


def _call(function: str, arguments: Iterable[str]) -> str:
    return f"({' '.join([function, *arguments])})"


def _mapping(node: nodes.Expr) -> nodes.Expr:
    """The mapping whose items a loop is over."""
    if isinstance(node, nodes.Filter) and node.name == "dictsort" and node.node is not None:
        return node.node
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr == "items":
        return node.node.node
    raise _unknown(node)


def _matching(text: str) -> int:
    """Where the parenthesis closes that `text` opens."""
    return next(position for position, depth in _depths(text) if depth == 0)


def _depths(text: str) -> Iterator[tuple[int, int]]:
    depth, quoted, escaped = 0, False, False
    for position, character in enumerate(text):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
            continue
        quoted = character == '"'
        depth += (character == "(") - (character == ")")
        yield position, depth


def _name(node: Any) -> str:
    if not isinstance(node, nodes.Name):
        raise _unknown(node)
    return node.name


def _unknown(node: nodes.Node) -> Untranslatable:
    return Untranslatable(f"line {node.lineno}: {node!r} has no translation")
