"""The settings of a job, as read from settings.json. An absent key means its default; an unknown key is an error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from rayllm_ctl.serving.batch.failures import BatchError

InputFormat = Literal["text", "jsonl", "csv", "parquet", "openai"]
OutputFormat = Literal["parquet", "jsonl", "openai"]
ColumnType = Literal["int", "float", "bool"]
Task = Literal["generate", "embed", "classify"]

ADDED_COLUMNS = ("answer", "finish_reason", "prompt_tokens", "completion_tokens", "error", "row_id")
"""Columns that the output has in addition to those of the input."""


@dataclass(frozen=True, slots=True)
class Job:
    """Limits of the job: row errors that still count as success, and rows in one output file."""

    maxErrors: int = 0
    partRows: int = 1000


@dataclass(frozen=True, slots=True)
class Input:
    """Where the rows come from. Either paths (files, folders, globs) or prompts."""

    format: InputFormat = "text"
    paths: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    keepEmptyLines: bool = False
    keyColumn: str | None = None
    types: dict[str, ColumnType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output:
    """Where the answers go. `columns` renames added columns."""

    path: str
    format: OutputFormat = "parquet"
    columns: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """The name of an added column in the output."""
        return self.columns.get(name, name)


@dataclass(frozen=True, slots=True)
class Storage:
    """Of S3. Credentials come from the environment (AWS_ACCESS_KEY_ID, ...), never from here."""

    endpoint: str | None = None
    region: str | None = None
    anonymous: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """How a row becomes a prompt: a template, a column, or messages of templates."""

    template: str | None = None
    system: str | None = None
    column: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    chat: bool | None = None
    """Whether prompts pass through the model's chat template; by default those of the task `generate` do."""
    chatTemplateKwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine and its place on the cluster. `modelId` is the name of the model in OpenAI batch files."""

    model: str
    modelId: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    acceleratorType: str | None = None
    concurrency: tuple[int, ...] = (1, 1)
    batchSize: int = 64
    maxConcurrentBatches: int = 8
    placementGroup: dict[str, Any] | None = None
    loraPath: str | None = None
    adapter: str | None = None
    """The LoRA adapter that answers every row. Lines of OpenAI batch files name theirs."""

    @property
    def answering(self) -> str:
        """What answers rows that name no model: the adapter, or the model itself."""
        return self.adapter or self.model


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a job."""

    name: str
    input: Input
    output: Output
    engine: Engine
    job: Job = Job()
    storage: Storage = Storage()
    prompt: Prompt = Prompt()
    sampling: dict[str, Any] = field(default_factory=dict)
    samplingColumns: dict[str, str] = field(default_factory=dict)
    jsonSchema: dict[str, Any] | None = None
    task: Task = "generate"

    @property
    def chat(self) -> bool:
        """Whether prompts pass through the model's chat template."""
        return self.task == "generate" if self.prompt.chat is None else self.prompt.chat


def load(path: str) -> Settings:
    """The settings in a file. BatchError if they cannot be read or contradict themselves."""
    try:
        return parse(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from error


def parse(data: Any) -> Settings:
    """The settings of a JSON document. BatchError names the first key that is wrong."""
    top = _keys(Settings, data, "settings")
    sections: dict[str, Any] = {
        name: _section(kind, top[name], name)
        for name, kind in (
            ("job", Job),
            ("input", Input),
            ("output", Output),
            ("storage", Storage),
            ("prompt", Prompt),
            ("engine", Engine),
        )
        if name in top
    }
    settings = _section(Settings, {**top, **sections}, "settings")
    assert isinstance(settings, Settings)
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    given, output = settings.input, settings.output
    choices: tuple[tuple[str, str, Any], ...] = (
        ("input.format", given.format, InputFormat),
        ("output.format", output.format, OutputFormat),
        ("task", settings.task, Task),
        *((f"input.types.{name}", value, ColumnType) for name, value in given.types.items()),
    )
    for where, value, allowed in choices:
        if value not in get_args(allowed):
            raise _bad(where, f"{value!r} is none of {', '.join(get_args(allowed))}")
    low_high = settings.engine.concurrency
    prompt = settings.prompt
    lora, adapter = settings.engine.loraPath, settings.engine.adapter
    ways = [name for name in ("template", "column", "messages") if getattr(prompt, name) is not None]
    extra = set(settings.prompt.chatTemplateKwargs) if not settings.chat else set()
    problems = (
        (bool(given.paths) == bool(given.prompts), "input", "needs either paths or prompts"),
        (bool(given.prompts) and given.format != "text", "input.prompts", "are of the format text"),
        (bool(given.types) and given.format != "csv", "input.types", "are for CSV; other formats have types"),
        (given.keyColumn is not None and given.format == "openai", "input.keyColumn", "is custom_id in OpenAI files"),
        (given.keepEmptyLines and given.format != "text", "input.keepEmptyLines", "is for text"),
        (output.format == "openai" and given.format != "openai", "output.format", "openai needs input of that format"),
        (bool(set(output.columns) - set(ADDED_COLUMNS)), "output.columns", f"renames {', '.join(ADDED_COLUMNS)} only"),
        (len({output.column(n) for n in ADDED_COLUMNS}) < len(ADDED_COLUMNS), "output.columns", "gives a name twice"),
        (output.format == "openai" and bool(output.columns), "output.columns", "has no meaning for OpenAI output"),
        (settings.job.partRows < 1, "job.partRows", "has to be at least 1"),
        (settings.job.maxErrors < 0, "job.maxErrors", "has to be at least 0"),
        (len(low_high) != 2 or not 1 <= low_high[0] <= low_high[1], "engine.concurrency", "has to be [least, most]"),
        (settings.engine.batchSize < 1, "engine.batchSize", "has to be at least 1"),
        (settings.engine.maxConcurrentBatches < 1, "engine.maxConcurrentBatches", "has to be at least 1"),
        (adapter is not None and lora is None, "engine.adapter", "needs engine.loraPath"),
        (adapter is not None and given.format == "openai", "engine.adapter", "is named by the lines of OpenAI files"),
        (adapter is None and lora is not None and given.format != "openai", "engine.loraPath", "needs engine.adapter"),
        (len(ways) > 1, "prompt", f"has {' and '.join(ways)}, of which only one can be"),
        (bool(ways or prompt.system) and given.format == "openai", "prompt", "is in the lines of OpenAI files"),
        (not ways and given.format in ("jsonl", "csv", "parquet"), "prompt", "needs a template, a column or messages"),
        (not settings.chat and bool(prompt.system or prompt.messages), "prompt.chat", "is needed for messages"),
        (settings.chat and settings.task != "generate", "prompt.chat", f"is not possible with {settings.task}"),
        (bool(extra), "prompt.chatTemplateKwargs", "need prompt.chat"),
        (settings.jsonSchema is not None and settings.task != "generate", "jsonSchema", "needs the task generate"),
    )
    for wrong, where, message in problems:
        if wrong:
            raise _bad(where, message)


def _section(kind: type[Any], data: Any, where: str) -> Any:
    """An instance of a dataclass from a JSON object; lists become tuples."""
    if isinstance(data, kind):
        return data
    values = {}
    for name, value in _keys(kind, data, where).items():
        key = name if where == "settings" else f"{where}.{name}"
        expected = str(next(f.type for f in fields(kind) if f.name == name))
        values[name] = _value(expected, value, key)
    try:
        return kind(**values)
    except TypeError as error:
        raise _bad(where, str(error).partition("() ")[2]) from None


def _value(expected: str, value: Any, where: str) -> Any:
    """The value, checked against the first word of the field's type: mistakes have to name their key."""
    kind = expected.partition("[")[0].partition(" ")[0]
    if value is None and expected.endswith("| None"):
        return None
    wanted = {"int": int, "bool": bool, "dict": dict, "tuple": list}.get(kind)
    if wanted is None and kind in ("str", "InputFormat", "OutputFormat", "Task"):
        wanted = str
    if wanted and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        raise _bad(where, f"has to be {_NAMES[wanted]}, not {value!r}")
    if wanted is not list:
        return value
    inner = {"str": str, "int": int, "dict": dict}[expected.partition("[")[2].partition(",")[0].partition("[")[0]]
    if any(not isinstance(item, inner) for item in value):
        raise _bad(where, f"has to be a list, each item {_NAMES[inner]}")
    return tuple(value)


_NAMES: dict[type[Any], str] = {
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    str: "a string",
}


def _keys(kind: type[Any], data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _bad(where, "has to be an object")
    known = [f.name for f in fields(kind)]
    for name in data:
        if name not in known:
            raise _bad(where, f"has no key {name!r}; there are {', '.join(known)}")
    return data


def _bad(where: str, message: str) -> BatchError:
    return BatchError("InvalidSpec", f"{where}: {message}", "correct the job's spec, then submit again")
