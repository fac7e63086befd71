"""From a row to what the engine is asked: a prompt or messages, and sampling parameters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.inference import requests
from rayllm_ctl.serving.batch.inference.sampling import Sampling
from rayllm_ctl.serving.batch.parts import Ask, Row, RowError, Source
from rayllm_ctl.serving.batch.settings import Settings

_OF_OPENAI = {"custom_id", "body"}
"""Columns of an OpenAI batch file."""


class Prompts:
    """Makes the Asks of a job. BatchError if a template cannot be parsed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_without_none)
        prompt = settings.prompt
        self._template = self._compile(prompt.template, "prompt.template")
        self._system = self._compile(prompt.system, "prompt.system")
        self._messages = [
            ({**message}, self._compile(message.get("content"), f"prompt.messages[{i}].content"))
            for i, message in enumerate(prompt.messages or ())
        ]
        self._sampling = Sampling(settings)
        self._names: set[str] = set()
        for source in (prompt.template, prompt.system, *(message["content"] for message, _ in self._messages)):
            if source is not None:
                self._names |= meta.find_undeclared_variables(self._environment.parse(source))
        self._columns = {prompt.column, *settings.samplingColumns.values()} - {None}

    def ask(self, row: dict[str, Any]) -> Ask:
        """The Ask of a row. RowError if there is none, UndefinedError if a template needs a column it lacks."""
        if self._settings.input.format == "openai":
            return self._checked(requests.ask(row, self._settings, self._sampling.defaults))
        column = self._settings.prompt.column or "text"
        if self._messages:
            content: Any = [{**message, "content": self._render(template, row)} for message, template in self._messages]
        elif self._template is not None:
            content = self._render(self._template, row)
        else:
            content = row.get(column)
        if content is None or content == [] or (isinstance(content, str) and not content.strip()):
            raise RowError("the prompt is empty")
        sampling = self._sampling.of(row)
        model = self._settings.engine.answering
        if not self._settings.chat:
            if not isinstance(content, str):
                raise RowError(f"column {column} is not text")
            return self._checked(Ask(content, None, sampling, model))
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        if not isinstance(messages, list) or not all(isinstance(m, dict) and m.get("role") for m in messages):
            raise RowError(f"column {column} is neither text nor a list of messages, each with role and content")
        if self._system is not None:
            messages = [{"role": "system", "content": self._render(self._system, row)}, *messages]
        chat = {"messages": messages, "kwargs": self._settings.prompt.chatTemplateKwargs}
        return self._checked(Ask(None, _json(chat), sampling, model))

    def try_ask(self, row: Row) -> Ask | str:
        """The Ask of a row, or why there is none."""
        if row.error is not None:
            return f"malformed row: {row.error}"
        try:
            return self.ask(row.values)
        except RowError as error:
            return str(error)
        except Exception as error:
            # A template can raise whatever the operators of the row's values do.
            return f"the prompt cannot be made: {type(error).__name__}: {error}"

    def check(self, source: Source, rows: list[Row], columns: list[str] | None) -> set[str]:
        """Reject what fails for the first rows of a file, before a GPU is requested; the models that they ask for."""
        known = set(columns if columns is not None else _union(rows))
        missing = sorted(name for name in self._columns - known if name is not None)
        if missing and rows:
            raise _missing(missing, source, known)
        failed: list[Exception] = []
        models: set[str] = set()
        for row in rows:
            try:
                models.add(self.ask(row.values).model)
            except UndefinedError as error:
                if absent := sorted(self._names - known):
                    raise _missing(absent, source, known) from None
                failed.append(error)
            except RowError:
                if self._settings.input.format != "openai":
                    continue
                raise
            except Exception as error:
                failed.append(error)
        if failed and len(failed) == len(rows):
            raise BatchError(
                "BadTemplate",
                f"the prompt cannot be made for any of the first rows of {source.path}: {failed[0]}",
                "correct the template; render it by hand with one row to see what it gives",
            )
        return models

    def _compile(self, template: Any, where: str) -> Template | None:
        if template is None and where in ("prompt.template", "prompt.system"):
            return None
        if not isinstance(template, str):
            raise BatchError("BadTemplate", f"{where} is not a template", "give a string")
        try:
            return self._environment.from_string(template)
        except TemplateSyntaxError as error:
            raise BatchError(
                "BadTemplate", f"{where}, line {error.lineno}: {error.message}", "see Jinja's documentation"
            ) from None

    def _render(self, template: Template | None, row: dict[str, Any]) -> str:
        assert template is not None
        return template.render(row)

    def _checked(self, ask: Ask) -> Ask:
        try:
            (ask.prompt or "").encode()
        except UnicodeEncodeError:
            raise RowError("the prompt has half of a surrogate pair, which is not valid Unicode") from None
        return ask


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except TypeError as error:
        raise RowError(f"the messages cannot be written as JSON: {error}") from None


def _without_none(value: Any) -> Any:
    """A null is not text in a prompt, where Jinja would write None."""
    return "" if value is None else value


def _union(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.values))


def _missing(names: list[str], source: Source, known: set[str]) -> BatchError:
    which = "the column" if len(names) == 1 else "the columns"
    return BatchError(
        "MissingColumn",
        f"{source.path} lacks {which} {', '.join(names)}; it has {', '.join(sorted(known)) or 'no columns'}",
        "--input-format openai: the lines are requests of OpenAI's batch API"
        if known >= _OF_OPENAI
        else "correct spec.prompt (--prompt) or spec.sampling.columns",
    )
