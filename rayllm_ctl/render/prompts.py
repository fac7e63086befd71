"""The templates of prompts, as far as they can be checked without rows."""

from __future__ import annotations

from collections.abc import Iterator

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from rayllm_ctl.model.batch import Prompt
from rayllm_ctl.model.problems import Path, Problem


def template_problems(prompt: Prompt) -> Iterator[Problem]:
    """The first error of each template that cannot be parsed; the driver renders them in the same sandbox."""
    at: Path = ("spec", "prompt")
    templates: list[tuple[Path, str | None]] = [
        ((*at, "template"), prompt.template),
        ((*at, "system"), prompt.system),
        *(((*at, "messages", index, "content"), message.content) for index, message in enumerate(prompt.messages)),
    ]
    environment = SandboxedEnvironment()
    for path, text in templates:
        try:
            environment.parse(text or "")
        except jinja2.TemplateSyntaxError as error:
            line = f"line {error.lineno}: " if text and "\n" in text.strip("\n") else ""
            yield Problem(path, f"not a valid Jinja template: {line}{(error.message or '').rstrip('.')}")
