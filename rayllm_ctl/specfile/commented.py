"""A spec file with a comment at every field, to start from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.spec.batch import BATCH_KIND, BatchJob
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.explanation import FieldExplanation
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.specfile.explain import explain
from rayllm_ctl.specfile.write import to_document

_WIDTH = 100

_EXAMPLES: dict[str, dict[str, Any]] = {
    "spec.gateway": {"keys": {}, "limits": {"perAddress": {"requests": "60/minute", "tokens": "100000/hour"}}}
}
"""Fields of a section that are written as comments where they are not given."""

_EMPTY: dict[str, dict[str, Any]] = {"spec.gateway": {"validation": {}}}
"""What is written for an empty section with examples: below `{}` they could not be uncommented."""


PLANNED = "The planner chose the fields marked as planned; without them it chooses again each time."
"""Header of a spec file with planned values."""


def commented(service: LLMService | BatchJob, given: LLMService | BatchJob, header: str) -> str:
    """The spec file of `service` as YAML with comments. Fields whose value differs from `given` are marked as planned.

    header: what the file starts with, as text without `#`.
    """
    document, known = to_document(service), to_document(given)
    kind = "batchjob" if document["kind"] == BATCH_KIND else ""
    root = explain(kind)
    lines = [*_comment(header, ""), f"apiVersion: {document['apiVersion']}", f"kind: {document['kind']}"]
    for part in root.fields:
        lines += [f"{part.name}:", *_fields(document[part.name], known.get(part.name), part, "  ")]
        unused = [field.name for field in part.fields if field.name not in document[part.name]]
    path = f"{kind}.spec.NAME".lstrip(".")
    lines += ["", *_comment(f"Not used here: {', '.join(unused)}. See `rayllm-ctl explain {path}`.", "  ")]
    return "\n".join(lines) + "\n"


def _fields(values: Mapping[str, Any], given: Any, section: FieldExplanation, indent: str) -> Iterator[str]:
    for field in section.fields:
        if field.name not in values:
            yield from _example(field, _EXAMPLES.get(section.path, {}), indent)
            continue
        value = values[field.name]
        old = given.get(field.name) if isinstance(given, Mapping) else None
        if isinstance(value, Mapping) and field.fields:
            if section.path == "spec" and field.name != next(iter(values)):
                yield ""
            yield from _comment(field.description, indent)
            value = value or _EMPTY.get(field.path, {})
            # A section without a value is not given; an empty one is.
            yield f"{indent}{field.name}:{'' if value else ' {}'}"
            yield from _fields(value, old, field, f"{indent}  ")
            continue
        planned = " Planned." if value != old else ""
        yield from _comment(f"{field.description}{planned}", indent)
        yield textwrap.indent(dump({field.name: value}, sort=False), indent).rstrip("\n")


def _example(field: FieldExplanation, examples: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A field that is not given, as comments: without `# ` they are part of the file."""
    if field.name in examples:
        yield from _comment(field.description, indent)
        yield textwrap.indent(dump({field.name: examples[field.name]}, sort=False), f"{indent}# ").rstrip("\n")


def _comment(text: str, indent: str) -> list[str]:
    start = f"{indent}# "
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False)
