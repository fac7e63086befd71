"""The templates of prompts, as far as they can be checked without rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import SandboxedEnvironment

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.checks.batch_files import column_clashes, input_format
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_SINGLE_BRACES = re.compile(r"(?<!\{)\{\s*([A-Za-z_]\w*)?\s*\}(?!\})")
"""A column as str.format, a shell or f-strings have it."""

_TEXT = "text"
"""The only column of lines of text."""


def template_problems(batch: BatchJob) -> Iterator[Problem]:
    """The first error of each template that cannot be parsed, and what no row of the input could mend.

    The driver renders the templates in the same sandbox.
    """
    at: Path = ("spec", "prompt")
    prompt = batch.prompt
    templates: list[tuple[Path, str | None]] = [
        ((*at, "template"), prompt.template),
        ((*at, "system"), prompt.system),
        *(((*at, "messages", index, "content"), message.content) for index, message in enumerate(prompt.messages)),
    ]
    environment = SandboxedEnvironment()
    columns: dict[Path, set[str]] = {}
    required: set[str] = set()
    for path, text in templates:
        if text is None:
            continue
        try:
            tree = environment.parse(text)
            columns[path] = meta.find_undeclared_variables(tree) - set(environment.globals)
            required |= columns[path] - _optional(tree)
        except jinja2.TemplateSyntaxError as error:
            line = f"line {error.lineno}: " if "\n" in text.strip("\n") else ""
            yield Problem(path, f"not a valid Jinja template: {line}{(error.message or '').rstrip('.')}")
    if len(columns) == sum(text is not None for _, text in templates):
        yield from _columns(batch, columns, required)


def _optional(tree: nodes.Template) -> set[str]:
    """Names for which a template has a default, or asks whether they are there."""
    found = {one.node for one in tree.find_all(nodes.Filter) if one.name in ("default", "d")}
    found |= {one.node for one in tree.find_all(nodes.Test) if one.name in ("defined", "undefined")}
    return {one.name for one in found if isinstance(one, nodes.Name)}


def _columns(batch: BatchJob, columns: dict[Path, set[str]], required: set[str]) -> Iterator[Problem]:
    """Prompts that are the same for every row, and columns that lines of text do not have."""
    at: Path = ("spec", "prompt")
    template, messages = batch.prompt.template, batch.prompt.messages
    if template and not columns[*at, "template"]:
        yield Problem((*at, "template"), "uses no column: every row would have the same prompt", _meant(template))
    contents = [columns[*at, "messages", index, "content"] for index in range(len(messages))]
    if messages and not any(contents):
        hint = _meant(" ".join(message.content for message in messages))
        yield Problem((*at, "messages"), "use no column: every row would have the same prompt", hint)
    if input_format(batch.input) != _TEXT:
        yield from column_clashes(batch, required)
        return
    for path, names in columns.items():
        for name in sorted(names - {_TEXT}):
            yield Problem(
                path, f"{quoted(name)} is not a column: lines of text have one, {_TEXT}", f"{{{{ {_TEXT} }}}}"
            )


def _meant(template: str) -> str:
    found = _SINGLE_BRACES.search(template)
    if found is None:
        return f"--prompt 'Summarize: {{{{ {_TEXT} }}}}'    # {_TEXT} is a column"
    return f"did you mean {{{{ {found[1] or _TEXT} }}}}?"
