"""Checks of spec.input, spec.prompt and spec.output of a batch job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.spec.batch import ADDED_COLUMNS, BatchJob, Input, Prompt
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential
from rayllm_ctl.model.spec.checks.plain_data import is_plain_data
from rayllm_ctl.model.spec.checks.pod_fields import is_absolute
from rayllm_ctl.model.text.problems import Path, Problem, quoted

MAX_INLINE_BYTES = 900 * 1024
"""Prompts in a spec become part of a ConfigMap, which holds 1 MiB in all."""

_EXTENSIONS = {
    "txt": "text", "jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "parquet": "parquet",
}  # fmt: skip

_WILDCARD = re.compile(r"[*?\[]")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)

ANONYMOUS = "anonymous@"
"""What precedes a bucket that is read without credentials, in Ray's own form of an address."""

COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".zip", ".lz4")
"""Extensions of files that the driver rejects (rayllm_ctl/serving/batch/inputs.py)."""

_TEXT = "text"
"""The column of a line of text."""

_WHERE = (
    "mount a volume that contains it (--volume pvc:CLAIM:/data, then /data/...), copy it to s3:// or gs://, or pass a "
    "few prompts with --input -"
)


def file_problems(batch: BatchJob) -> Iterator[Problem]:
    """All that is wrong with input, output and prompt, in the order of the spec file."""
    yield from _input(batch)
    yield from _output(batch)
    yield from _prompt(batch)


def input_format(given: Input) -> str | None:
    """The format of the input: as it says, or by the extension that all paths have; None if that says nothing."""
    if given.format is not None:
        return given.format
    if given.prompts:
        return "text"
    found = {_format_of(path) for path in given.paths}
    return found.pop() if len(found) == 1 else None


def _format_of(path: str) -> str | None:
    return _EXTENSIONS.get(path.rstrip("/").rpartition(".")[2].lower())


def output_format(batch: BatchJob) -> str:
    """The format of the output: as it says, or OpenAI's for such files, or Parquet."""
    return batch.output.format or ("openai" if batch.input.format == "openai" else "parquet")


def _input(batch: BatchJob) -> Iterator[Problem]:
    given = batch.input
    at: Path = ("spec", "input")
    if bool(given.paths) == bool(given.prompts):
        either = "paths and prompts cannot be combined" if given.paths else "requires paths or prompts"
        yield Problem(at, either, "--input s3://bucket/prompts/*.jsonl" if not given.paths else "")
    for index, path in enumerate(given.paths):
        yield from _location(batch, path, (*at, "paths", index), ("s3", "gs", "https"))
        if path.endswith(COMPRESSED):
            yield Problem((*at, "paths", index), f"{quoted(path)} is compressed", "decompress it")
    if len(set(given.paths)) < len(given.paths):
        yield Problem((*at, "paths"), "contains the same path twice")
    size = sum(len(prompt.encode("utf-8", "surrogatepass")) for prompt in given.prompts)
    if size > MAX_INLINE_BYTES:
        yield Problem(
            (*at, "prompts"),
            f"{size // 1024:,} KiB of prompts exceed the {MAX_INLINE_BYTES // 1024} KiB that fit into a ConfigMap",
            _WHERE,
        )
    form = input_format(given)
    if form is None and given.paths:
        yield Problem(
            (*at, "format"),
            _unknown_format(given.paths),
            "one of text, jsonl, csv, parquet, openai (--input-format)",
        )
    if given.prompts and form != "text":
        yield Problem((*at, "format"), f"must be text for prompts in the spec, not {form}")
    yield from _options(given, form)


def _unknown_format(paths: Iterable[str]) -> str:
    """Why the format does not follow from the extensions of the paths."""
    formats = [found for path in paths if (found := _format_of(path))]
    several = sorted(set(formats))
    if len(several) > 1:
        return f"required: the extensions of the paths differ ({', '.join(several)}), and an input has one format"
    return "required: the extensions of the paths do not tell it"


def _options(given: Input, form: str | None) -> Iterator[Problem]:
    """Options that belong to certain formats."""
    at: Path = ("spec", "input")
    if given.keep_empty_lines and form != "text":
        yield Problem((*at, "keepEmptyLines"), f"applies to text only, not to {form}")
    if given.types and form != "csv":
        yield Problem((*at, "types"), f"applies to csv only, not to {form}")
    if given.key_column is not None and form in ("text", "openai"):
        why = "lines of text have no columns" if form == "text" else "custom_id is the key of OpenAI batch files"
        yield Problem((*at, "keyColumn"), f"does not apply to {form}: {why}")
    if given.key_column == "":
        yield Problem((*at, "keyColumn"), "must be the name of a column")


def _output(batch: BatchJob) -> Iterator[Problem]:
    output = batch.output
    at: Path = ("spec", "output")
    yield from _location(batch, output.path, (*at, "path"), ("s3", "gs"))
    if any(character in output.path for character in "*?["):
        yield Problem((*at, "path"), "must be one folder, not a glob")
    yield from _among_inputs(batch)
    if output.path.partition("://")[2].startswith(ANONYMOUS):
        yield Problem(
            (*at, "path"),
            f"{quoted(ANONYMOUS)} is for reading: writing to an object store takes credentials",
            f"{output.path.replace(ANONYMOUS, '', 1)} and spec.storage.credentialsSecret (--s3-secret NAME)",
        )
    for volume in batch.storage.volumes:
        if volume.read_only and _is_below(output.path, volume.mount_path):
            yield Problem(
                (*at, "path"),
                f"is on volume {volume.name}, which is mounted read-only",
                "spec.storage.volumes[].readOnly: false (--volume pvc:CLAIM:/data:rw)",
            )
    yield from _columns(batch)


def _among_inputs(batch: BatchJob) -> Iterator[Problem]:
    """An output that would be read as input, now or when the job is submitted again, or that is not empty."""
    output = batch.output.path.rstrip("/")
    at: Path = ("spec", "output", "path")
    another = "another folder for the output"
    part = f"{output}/part-00000-000000.{'parquet' if output_format(batch) == 'parquet' else 'jsonl'}"
    for given in batch.input.paths:
        path = given.replace(ANONYMOUS, "", 1).rstrip("/")
        wildcard = _WILDCARD.search(path)
        folder = path[: wildcard.start()] if wildcard else path
        if output == path:
            yield Problem(at, "is also an input: answers would become rows", another)
        elif wildcard is None and _is_below(output, path):
            files = "another folder, or files as the input, such as folder/*.jsonl"
            yield Problem(at, "is inside an input folder: answers would become rows", files)
        elif _is_below(folder.rpartition("/")[0], output):
            yield Problem(at, f"contains the input {quoted(given)}, and must be empty when the job starts", another)
        elif wildcard and _glob(path).fullmatch(part):
            yield Problem(at, f"is matched by the input {quoted(given)}: answers would become rows", another)
        else:
            continue
        return


def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as the driver reads it (rayllm_ctl/serving/batch/inputs.py): only `**` goes beyond a slash."""
    means = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    out = ""
    for index, part in enumerate(parts):
        out += (means.get(part) or part.replace("[!", "[^")) if index % 2 else re.escape(part)
    try:
        return re.compile(out)
    except re.error:
        return re.compile(re.escape(pattern))


def _columns(batch: BatchJob) -> Iterator[Problem]:
    """Names of the columns that the job adds to those of the input."""
    output, form = batch.output, output_format(batch)
    at: Path = ("spec", "output")
    if form == "openai" and batch.input.format != "openai":
        yield Problem((*at, "format"), "openai requires spec.input.format: openai")
    seen: dict[str, str] = {}
    for column in ADDED_COLUMNS:
        name = output.columns.get(column, column)
        if name in seen:
            yield Problem((*at, "columns", column), f"{quoted(name)} is the name of {seen[name]} as well")
        seen[name] = column
    for column, name in output.columns.items():
        if column not in ADDED_COLUMNS:
            yield Problem(
                (*at, "columns", column),
                f"is not an added column ({', '.join(ADDED_COLUMNS)})",
                did_you_mean(column, ADDED_COLUMNS),
            )
        if not name:
            yield Problem((*at, "columns", column), "must be the name of a column")
    yield from column_clashes(batch, _known_columns(batch))
    if form == "openai" and output.columns:
        yield Problem((*at, "columns"), "does not apply to openai: the fields of that format are fixed")


def column_clashes(batch: BatchJob, known: Iterable[str]) -> Iterator[Problem]:
    """Columns that the job adds, and that the input has as well. known: columns that every row must have."""
    if output_format(batch) == "openai":
        return
    given = set(known)
    for column in ADDED_COLUMNS:
        name = batch.output.columns.get(column, column)
        if name in given:
            yield Problem(
                ("spec", "output", "columns", column) if column in batch.output.columns else ("spec", "output"),
                f"{quoted(name)} is a column of the input, and the output has those too",
                f"--rename {column}=ANOTHER_NAME (spec.output.columns)",
            )


def _known_columns(batch: BatchJob) -> set[str]:
    """Columns that the input must have by the spec, without those of the templates."""
    if input_format(batch.input) == "text":
        return {_TEXT}
    named = (batch.prompt.column, batch.input.key_column, *batch.sampling.columns.values())
    return {name for name in named if name}


def _prompt(batch: BatchJob) -> Iterator[Problem]:
    prompt, form = batch.prompt, input_format(batch.input)
    at: Path = ("spec", "prompt")
    if form == "openai":
        if prompt != Prompt():
            yield Problem(at, "does not apply to openai: every line has messages of its own")
        return
    sources = {"template": prompt.template, "column": prompt.column, "messages": prompt.messages or None}
    given = [name for name, source in sources.items() if source is not None]
    if len(given) > 1:
        yield Problem(at, f"must have one of {', '.join(sources)}, not {' and '.join(given)}")
    if not given and form not in ("text", None):
        hint = "--prompt 'Summarize: {{ text }}'    # text is a column"
        if form == "jsonl":
            hint += "; --input-format openai, if the lines are requests of OpenAI's batch API"
        yield Problem(at, f"requires template, column or messages for rows of {form}", hint)
    for name in ("template", "column"):
        if sources[name] == "":
            yield Problem((*at, name), "must not be empty")
    if form == "text" and prompt.column not in (None, "", _TEXT):
        yield Problem((*at, "column"), f"{quoted(prompt.column)} is not a column: lines of text have one, {_TEXT}")
    if form == "text":
        for parameter, column in batch.sampling.columns.items():
            if column and column != _TEXT:
                why = f"{quoted(column)} is not a column: lines of text have one, {_TEXT}"
                yield Problem(("spec", "sampling", "columns", parameter), why)
    if prompt.system is not None and prompt.messages:
        yield Problem((*at, "system"), "cannot be combined with spec.prompt.messages", "a message with role: system")
    chat = prompt.chat if prompt.chat is not None else batch.task == "generate"
    if not chat and (prompt.system is not None or prompt.messages):
        what = "system" if prompt.system is not None else "messages"
        yield Problem((*at, what), "requires the model's chat template", "spec.prompt.chat: true")
    if prompt.chat_template_kwargs:
        here = (*at, "chatTemplateKwargs")
        if not chat:
            yield Problem(here, "requires the model's chat template", "spec.prompt.chat: true")
        if not is_plain_data(prompt.chat_template_kwargs):
            yield Problem(here, "has no form in JSON: it contains a number that is not finite or such text")


def _location(batch: BatchJob, path: str, at: Path, schemes: tuple[str, ...]) -> Iterator[Problem]:
    """Whether the pods can reach `path`: an address with one of `schemes`, or a path below a mounted volume."""
    if holds_a_credential(path):
        yield Problem(at, "contains credentials", "spec.storage.credentialsSecret, the name of a Secret (--s3-secret)")
        return
    address = _ADDRESS.fullmatch(path)
    if address is not None:
        if address[1] not in schemes:
            supported = ", ".join(f"{scheme}://" for scheme in schemes)
            yield Problem(at, f"{address[1]}:// is not supported (supported: {supported}, and paths of volumes)")
        elif not address[2].removeprefix(ANONYMOUS).strip("/") or not path.isprintable():
            yield Problem(at, f"{quoted(path)} names no {'host' if address[1] == 'https' else 'bucket'}")
        elif address[1] == "https" and "*" in path:
            yield Problem(at, "an https:// address names one file: a web server does not list its files")
        return
    if not is_absolute(path):
        yield Problem(at, f"{quoted(path)} is not a path that the pods have: it must be absolute", _WHERE)
    elif batch.cluster is None and not any(_is_below(path, volume.mount_path) for volume in batch.storage.volumes):
        yield Problem(at, f"{quoted(path)} is not below a mounted volume: the pods do not see this machine", _WHERE)


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
