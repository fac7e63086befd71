"""The LLMService that a command works on: a spec file, overridden by flags."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.settings.below import below_spec, namespace_below
from rayllm_ctl.cli.storage_flags import STORAGE_FIELDS, with_storage
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import is_stream
from rayllm_ctl.model.kube.names import service_name
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.gateway import Gateway
from rayllm_ctl.model.spec.service import LLMService, Model, Replicas
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import Problem

_UNNAMED = "model"


def resolve_service(
    file: Path | None,
    overrides: Mapping[str, Any],
    namespace: str | None = None,
    flags: Mapping[str, str] | None = None,
    settings: Collection[str] | None = None,
) -> LLMService:
    """The service of `file` with `overrides` (dotted field path -> value) above it, and settings of the current command
    below it, validated.

    Lists and mappings of a flag extend those of the file; later entries win. `flags` names the flag of each field, for
    messages. settings: the fields that settings may set, if not all. Raises UsageError with every problem.
    """
    overrides, flags = below_spec(file, overrides, flags or {}, settings)
    if file is not None:
        from rayllm_ctl.specfile import load_file

        service = load_file(file)
        if "model.id" in overrides:
            note_kept_name("service", service.name, service.model.id, overrides)
            service = dataclasses.replace(service, model=dataclasses.replace(service.model, id=overrides["model.id"]))
    elif "model.id" not in overrides:
        raise UsageError("a model is required", hint=(f"{_command()} Qwen/Qwen3-32B", f"{_command()} -f qwen.yaml"))
    else:
        model = overrides["model.id"]
        service = LLMService(name=service_name(model), model=Model(model))
    changes = {field: value for field, value in overrides.items() if not field.startswith("replicas.")}
    changes.pop("model.id", None)
    if changes.pop("gateway", False) and service.gateway is None:
        service = dataclasses.replace(service, gateway=Gateway())
    for field, value in changes.items():
        if field not in STORAGE_FIELDS:
            service = replaced(service, field.split("."), value)
    service, overrides, flags = with_storage(service, overrides, flags)
    service = dataclasses.replace(service, replicas=_replicas(service.replicas, overrides, flags))
    namespace = namespace_below(namespace, service.namespace)
    if namespace is not None:
        service = dataclasses.replace(service, namespace=namespace)
    problems = validate(service)
    if problems:
        raise invalid(problems, file, overrides, flags, namespace)
    return service


def note_kept_name(what: str, name: str, model: str, overrides: Mapping[str, Any]) -> None:
    """Say that a service (`what`) of a file keeps its name with another model than `model`, where the name matters."""
    other, ctx = overrides.get("model.id", model), click.get_current_context(silent=True)
    has_name = ctx is not None and any("--name" in param.opts for param in ctx.command.params)
    if has_name and model and other != model and "name" not in overrides:
        click.echo(f"note: the {what} keeps its name, {name}, with {other} in place of {model}", err=True)


def _command() -> str:
    context = click.get_current_context(silent=True)
    return context.command_path if context else "rayllm-ctl deploy"


def _usage() -> str:
    """The command that shows the flags of the current command."""
    return f"{_command()} --help"


def invalid(
    problems: Sequence[Problem],
    file: Path | None,
    overrides: Mapping[str, Any],
    flags: Mapping[str, str],
    namespace: str | None = None,
) -> UsageError:
    """The error with every problem by its flag or path. The hint is what to correct: the file, or the command line.

    namespace: that of the command line.
    """
    if namespace is not None:
        flags = {**flags, "namespace": "--namespace"}
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    places = [place(problem, overrides, flags) for problem in problems]
    lines = [f"{at}: {_as_typed(one, overrides, flags)}" for at, one in zip(places, problems, strict=True)]
    of_flags = all(at != one.where for at, one in zip(places, problems, strict=True))
    corrected = _usage() if file is None or of_flags else f"correct {'standard input' if str(file) == '-' else file}"
    return UsageError("\n".join(lines), hint=tuple(hints) or corrected)


def _as_typed(problem: Problem, overrides: Mapping[str, Any], flags: Mapping[str, str]) -> str:
    """The message of a problem, in which fields that were set on the command line are called by what set them."""
    names = {".".join(_path(field)): flag_of(field, flags) for field in overrides}
    if "replicas.fixed" in overrides:
        names |= dict.fromkeys(("spec.replicas.min", "spec.replicas.max"), flag_of("replicas.fixed", flags))
    return re.sub(r"\bspec(?:\.\w+)+", lambda found: names.get(found[0], found[0]), problem.message)


def flag_of(field: str, flags: Mapping[str, str]) -> str:
    """What set a field on the command line: its flag, the argument for the model, or a variable."""
    from rayllm_ctl.cli.options import MODEL_ARGUMENT
    from rayllm_ctl.cli.parsing.typed import flag_as_typed

    return flag_as_typed(flags.get(field, f"--{field}"), MODEL_ARGUMENT if field == "model.id" else None)


def _path(field: str) -> tuple[str, ...]:
    return ("spec", *(camel(part) for part in field.split(".")))


def may_be_batch(file: Path | None) -> bool:
    """Whether a file may describe a BatchJob; avoids importing the code for batch jobs otherwise."""
    if file is None:
        return False
    from rayllm_ctl.specfile.load import mentions_batch

    try:
        return mentions_batch(file)
    except OSError:
        return False  # which is reported by whoever reads it as a service


def named_after(config: Path) -> str:
    """The default name of a model of which only the config is known: the name of its directory or file; not of a pipe,
    which says nothing."""
    if is_stream(config):
        return _UNNAMED
    path = config.resolve()
    return service_name(path.parent.name if path.name == "config.json" else path.name.removesuffix(".json"))


def place(problem: Problem, overrides: Mapping[str, Any], flags: Mapping[str, str]) -> str:
    """The flag that set the field, or its path in the spec file."""
    if problem.path == ("metadata", "name"):
        return flags.get("name", problem.where)
    if problem.path == ("metadata", "namespace"):
        return flag_of("namespace", flags) if "namespace" in flags else problem.where
    for field, value in overrides.items():
        path = _path(field)
        if field not in flags or problem.path[: len(path)] != path:
            continue
        rest = problem.path[len(path) :]
        if not (rest and isinstance(rest[0], str) and isinstance(value, tuple)):
            return flag_of(field, flags)
        if rest[0] in dict(value):
            return f"{flag_of(field, flags)} {rest[0]}"
    if problem.path[1:] in (("replicas", "min"), ("replicas", "max")) and "replicas.fixed" in overrides:
        return flag_of("replicas.fixed", flags)
    return problem.where


def _replicas(given: Replicas, overrides: Mapping[str, Any], flags: Mapping[str, str]) -> Replicas:
    fixed, low, high = (overrides.get(f"replicas.{name}") for name in ("fixed", "min", "max"))
    if fixed is not None and (low is not None or high is not None):
        called = {field: flag_of(field, flags) for field in overrides if field.startswith("replicas.")}
        bounds = " and ".join(called[field] for field in ("replicas.min", "replicas.max") if field in called)
        low = 1 if low is None else low
        raise UsageError(
            f"{called['replicas.fixed']} cannot be combined with {bounds}",
            hint=(f"--replicas {fixed}", f"--min-replicas {low} --max-replicas {max(low, high or fixed)}"),
        )
    if fixed is not None and fixed < 1:
        raise UsageError(
            f"--replicas: must be at least 1, not {fixed}",
            hint="--min-replicas 0 --max-replicas 1    # no replica runs while there are no requests",
        )
    if fixed is not None:
        low = high = fixed
    elif low is not None and high is None:
        high = max(low, given.max)
    elif high is not None and low is None:
        low = min(given.min, high) if high >= 0 else given.min
    rest = {
        field.removeprefix("replicas."): value for field, value in overrides.items() if field.startswith("replicas.")
    }
    changed = {**rest, "min": low, "max": high}
    changed.pop("fixed", None)
    count = given.count if low is high is None else None
    changes = {name: value for name, value in changed.items() if value is not None}
    return dataclasses.replace(given, **changes, count=count)


def replaced(node: Any, path: list[str], value: Any) -> Any:
    """`node` with the field at `path` replaced; mappings and tuples are extended."""
    name, *rest = path
    current = getattr(node, name)
    if rest:
        return dataclasses.replace(node, **{name: replaced(current, rest, value)})
    if isinstance(current, Mapping):
        value = {**current, **dict(value)}
    elif isinstance(current, tuple):
        value = (*current, *value)
    return dataclasses.replace(node, **{name: value})
