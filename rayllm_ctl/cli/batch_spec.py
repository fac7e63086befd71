"""The BatchJob that a command works on: a spec file, overridden by flags."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.batch_flags import BATCH_FLAGS
from rayllm_ctl.cli.service import invalid, note_kept_name, replaced
from rayllm_ctl.cli.settings.below import below_spec, namespace_below
from rayllm_ctl.cli.storage_flags import STORAGE_FIELDS, with_storage
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import standard_input
from rayllm_ctl.model.kube.names import service_name
from rayllm_ctl.model.spec.batch import BatchJob, BatchModel, Input, Output
from rayllm_ctl.model.spec.checks.batch import validate_batch
from rayllm_ctl.model.spec.checks.batch_files import MAX_INLINE_BYTES

STDIN = "-"


def resolve_batch(
    file: Path | None, overrides: Mapping[str, Any], namespace: str | None, flags: Mapping[str, str]
) -> BatchJob:
    """The job of `file` with `overrides` (dotted field path -> value) above it, validated.

    Lists and mappings of a flag extend those of the file; later entries win. `flags` names the flag of each field, for
    messages. Raises UsageError with every problem.
    """
    overrides, flags = below_spec(file, _with_prompts(overrides), flags, BATCH_FLAGS)
    batch = _described(file, overrides)
    for field, value in overrides.items():
        if field not in STORAGE_FIELDS:
            batch = replaced(batch, field.split("."), value)
    batch, overrides, flags = with_storage(batch, overrides, flags)
    namespace = namespace_below(namespace, batch.namespace)
    if namespace is not None:
        batch = dataclasses.replace(batch, namespace=namespace)
    problems = validate_batch(batch)
    if problems:
        raise invalid(problems, file, overrides, flags, namespace)
    return batch


def batch_of_file(
    file: Path, overrides: Mapping[str, Any], namespace: str | None, flags: Mapping[str, str]
) -> BatchJob | None:
    """The job of a file that describes one; None for any other.

    UsageError for a flag of services that a batch job does not have.
    """
    from rayllm_ctl.specfile import load_any_file

    if not isinstance(load_any_file(file), BatchJob):
        return None
    known = {field.name for field in dataclasses.fields(BatchJob)}
    foreign = [field for field in overrides if field.partition(".")[0] not in known or not _has(field)]
    if foreign:
        named = ", ".join(dict.fromkeys(flags.get(field, field) for field in foreign))
        raise UsageError(
            f"{named}: does not apply to a BatchJob ({file})",
            hint="rayllm-ctl batch submit --help    # lists its flags",
        )
    return resolve_batch(file, overrides, namespace, flags)


def _has(field: str) -> bool:
    """Whether a BatchJob has the field of a flag."""
    return field in BATCH_FLAGS


def _described(file: Path | None, overrides: Mapping[str, Any]) -> BatchJob:
    if file is not None:
        from rayllm_ctl.specfile import load_any_file

        found = load_any_file(file)
        if not isinstance(found, BatchJob):
            raise UsageError(f"{file}: describes an LLMService, not a BatchJob", hint=f"rayllm-ctl deploy -f {file}")
        note_kept_name("batch job", found.name, found.model.id, overrides)
        return found
    required = {"model.id": "MODEL", "output.path": "--output-path"}
    missing = [flag for field, flag in required.items() if field not in overrides]
    if not overrides.keys() & {"input.paths", "input.prompts"}:
        missing.append("--input")
    if missing:
        command = f"rayllm-ctl batch {click.get_current_context().info_name}"
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} required, or a spec file",
            hint=(
                f"{command} Qwen/Qwen3-8B --input s3://bucket/in.txt --output-path s3://bucket/out/",
                f"{command} -f job.yaml",
            ),
        )
    model = overrides["model.id"]
    return BatchJob(_default_name(overrides), BatchModel(model), Input(), Output(overrides["output.path"]))


def _default_name(overrides: Mapping[str, Any]) -> str:
    """A name derived from the job, so that submitting the same job again continues it."""
    work = {field: overrides.get(field) for field in ("model.id", "input.paths", "input.prompts", "output.path")}
    digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{service_name(overrides['model.id'])[:38].rstrip('-')}-{digest[:8]}"


def _with_prompts(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` with the lines of standard input as prompts if --input is -."""
    paths = tuple(overrides.get("input.paths", ()))
    if STDIN not in paths:
        return dict(overrides)
    if len(paths) > 1 or "input.prompts" in overrides:
        raise UsageError("--input - reads all prompts from standard input and cannot be combined with others")
    data = standard_input("--input s3://bucket/prompts.txt, or a file on a volume").buffer.read(MAX_INLINE_BYTES + 1)
    if len(data) > MAX_INLINE_BYTES:
        raise UsageError(
            f"--input -: more than {MAX_INLINE_BYTES // 1024} KiB on standard input",
            hint="--input s3://bucket/prompts.txt, or a file on a volume",
        )
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UsageError("--input -: standard input is not valid UTF-8") from None
    prompts = tuple(line for line in lines if line.strip())
    if not prompts:
        raise UsageError("--input -: standard input has no lines with text")
    rows = () if overrides.get("input.format") == "text" else (n for n, line in enumerate(lines, 1) if _is_row(line))
    if number := next(iter(rows), None):
        raise UsageError(
            f"--input -: line {number} is JSON, and standard input has a prompt per line, not rows with columns",
            hint=(
                "--input s3://bucket/rows.jsonl    # or a file on a volume: rows with columns",
                "--input - --input-format text    # each line is a prompt as it is",
            ),
        )
    rest = {field: value for field, value in overrides.items() if field != "input.paths"}
    return {**rest, "input.prompts": prompts}


def _is_row(line: str) -> bool:
    """Whether a line is a JSON object, or an array of them."""
    if not line.lstrip().startswith(("{", "[")):
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value[0] if isinstance(value, list) and value else value, dict)
