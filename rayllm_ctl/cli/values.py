"""Types of flag values."""

from __future__ import annotations

from typing import Any, ClassVar, cast, get_args

import click

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.kuberay_versions import known_version
from rayllm_ctl.model.kube.quantities import parse_duration, parse_quantity
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.service import TaintEffect, Toleration, Volume
from rayllm_ctl.model.text.lengths import parse_lengths
from rayllm_ctl.model.text.patterns import Pattern
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.model.text.scalars import parse_scalar


class Duration(click.ParamType[float]):
    """A Go duration; its value is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Quantity(click.ParamType[str]):
    """A Kubernetes quantity, kept as text."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_quantity(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class TokenLengths(click.ParamType[int | str]):
    """A number of tokens, or how it is distributed, as a spec file writes it."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        try:
            found = parse_lengths(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found.low if found.kind == "fixed" else str(value)


class PathAsFormatError(click.BadParameter):
    """A path was given to --output of a command that has another flag for it. `hints`: that flag, with the path."""

    def __init__(self, error: click.BadParameter, hint: str) -> None:
        super().__init__(error.message, error.ctx, error.param)
        self.hints = (hint,)


class PrintedFormat(click.Choice[str]):
    """A format of the output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            names = [name for one in ctx.command.params for name in one.opts] if ctx else []
            flag = next((name for name in names if name in ("--output-path", "--output-dir")), None)
            if flag is None or "/" not in str(value):
                raise
            raise PathAsFormatError(error, f"{flag} {_shell_word(str(value))}") from None


class OutputPath(click.Path):
    """The path of --output of a command that writes a file. What other commands have as a format is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        called = "standard output" if value == "-" else "a format of other commands"
        if value in _FORMATS or (value == "-" and not self.allow_dash):
            command = ctx.command_path if ctx else ""
            raise UsageError(
                f"-o of {command} is the path of a file, and {quoted(value)} is {called}",
                hint=f"-o ./{value}    # a file of this name",
            )
        return super().convert(value, param, ctx)


_FORMATS = ("table", "wide", "json", "yaml", "name", "diff", "markdown")
_HUBS = ("huggingface.co/", "www.huggingface.co/", "hf.co/")
_NO_MODELS = ("collections", "datasets", "docs", "papers", "spaces")


class ModelName(click.ParamType[str]):
    """The name of a model, or the address of its page on the Hugging Face Hub."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        address = text.partition("://")[2] if text.startswith(("https://", "http://")) else text
        hub = next((hub for hub in _HUBS if address.startswith(hub)), None)
        if hub is None:
            if text.endswith((".yaml", ".yml", ".json")):
                raise UsageError(f"{quoted(text)} is a file, not the name of a model", hint=f"-f {_shell_word(text)}")
            return text
        owner, name, *page = [*address.removeprefix(hub).split("#")[0].split("?")[0].rstrip("/").split("/"), ""]
        if not owner or owner in _NO_MODELS:
            self.fail(
                f"{quoted(text)} is not the address of a model, such as https://huggingface.co/Qwen/Qwen3-32B",
                param,
                ctx,
            )
        model = f"{owner}/{name}" if name else owner
        if page[:1] in (["blob"], ["resolve"], ["tree"]) and page[1] not in ("", "main"):
            raise UsageError(
                f"{quoted(text)} is the address of revision {page[1]}",
                hint=f"{model} --revision {_shell_word(page[1])}",
            )
        return model


_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_WITH_SUFFIX = Pattern(r"(\d+(?:\.\d+)?)([kKmMgGtT])")

AUTO = "auto"
"""The value of a flag that takes back the one of a file: the plan chooses."""


class TokenCount(click.ParamType[int | str]):
    """A number of tokens as vLLM reads it: 32768, 32k (32,000), 25.6k, 32K (32,768).

    With auto=True also auto and -1, which are AUTO: as much context as fits (human_readable_int_or_auto in
    vllm/engine/arg_utils.py, 0.29).
    """

    name = "tokens"

    def __init__(self, auto: bool = False) -> None:
        self.auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value).strip()
        if self.auto and (text == "-1" or text.lower() == AUTO):
            return AUTO
        found = _WITH_SUFFIX.fullmatch(text)
        try:
            if found is None:
                return int(text)
            number, suffix = found.groups()
            if suffix in _DECIMAL:
                return int(float(number) * _DECIMAL[suffix])
            if not number.isdecimal():
                self.fail(f"{quoted(text)}: {suffix} takes no decimals; {number}{suffix.lower()} does", param, ctx)
            return int(number) * _BINARY[suffix]
        except ValueError:
            others = " or auto" if self.auto else ""
            self.fail(f"{quoted(text)} is not a number such as 32768, 32k (32,000), 32K (32,768){others}", param, ctx)


def _shell_word(text: str) -> str:
    from shlex import quote

    return quote(text)


class KubeRayVersion(click.ParamType[str]):
    """A version of KubeRay, such as 1.6 or 1.6.2; its value is the known version nearest to it, after a note."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            known, note = known_version(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if note:
            click.echo(note, err=True)
        return known


class KeyValue(click.ParamType[tuple[str, Any]]):
    """KEY=VALUE. With typed=True a value is parsed as in a spec file: 1024, true, "1", [1] or text."""

    def __init__(self, typed: bool = False) -> None:
        self.typed = typed
        self.name = "key=value"

    def key_of(self, value: tuple[str, Any]) -> str:
        """What the values of a command have once only."""
        return value[0]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not separator or not key:
            self.fail("expected KEY=VALUE", param, ctx)
        if not self.typed:
            return key, text
        try:
            return key, _typed(text)
        except ValueError as error:
            self.fail(f"{key}: {error}", param, ctx)


def _typed(text: str) -> Any:
    if not text.startswith(("{", "[", '"')):
        return parse_scalar(text)
    import json

    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"not valid JSON (a string that starts with {text[0]} must be quoted as JSON)") from None


class SecretReference(click.ParamType[SecretKey]):
    """NAME/KEY of a Secret in the service's namespace."""

    name = "name/key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SecretKey:
        if isinstance(value, SecretKey):
            return value
        name, separator, key = str(value).partition("/")
        if not (separator and name and key) or "/" in key:
            # The value is not repeated: it may be the token itself.
            self.fail("expected NAME/KEY, the name of a Secret and one of its keys, not the token itself", param, ctx)
        return SecretKey(name, key)


class VolumeSpec(click.ParamType[Volume]):
    """KIND:SOURCE:MOUNT_PATH[:rw], where KIND is pvc, hostPath, configMap or secret."""

    name = "kind:source:path"
    _FIELDS: ClassVar[dict[str, str]] = {
        "pvc": "persistent_volume_claim",
        "hostPath": "host_path",
        "configMap": "config_map",
        "secret": "secret",
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Volume:
        if isinstance(value, Volume):
            return value
        parts = str(value).split(":")
        if (
            len(parts) not in (3, 4)
            or parts[0] not in self._FIELDS
            or (len(parts) == 4 and parts[3] not in ("rw", "ro"))
        ):
            self.fail(
                f"{quoted(str(value))}: expected KIND:SOURCE:MOUNT_PATH[:rw], such as pvc:models:/models "
                f"(kinds: {', '.join(self._FIELDS)})",
                param,
                ctx,
            )
        kind, source, path = parts[:3]
        name = "".join(c if c.isalnum() else "-" for c in path.lower()).strip("-") or "root"
        return Volume(
            name=name[:63].rstrip("-"), mount_path=path, read_only=parts[3:] != ["rw"], **{self._FIELDS[kind]: source}
        )


class TolerationSpec(click.ParamType[Toleration]):
    """KEY[=VALUE][:EFFECT], as kubectl writes taints."""

    name = "key[=value][:effect]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Toleration:
        if isinstance(value, Toleration):
            return value
        rest, _, effect = str(value).partition(":")
        key, separator, text = rest.partition("=")
        if not key or effect not in ("", *get_args(TaintEffect)):
            self.fail(f"{quoted(str(value))}: expected KEY[=VALUE][:NoSchedule|PreferNoSchedule|NoExecute]", param, ctx)
        return Toleration(key, text if separator else None, cast("TaintEffect", effect) if effect else None)
