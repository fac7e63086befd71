"""API keys for a command, from a file or the environment, never from an argument."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import standard_input

F = TypeVar("F", bound=Callable[..., Any])

API_KEY_VARIABLE = "RAYLLM_API_KEY"
_KEY_FILE = "rayllm-ctl keys create NAME --key-name NAME > FILE    # writes such a file"


def api_key_option(function: F) -> F:
    """--api-key-file, passed as `api_key_file`."""
    return _option("File with the API key, if the service requires one")(function)


def api_keys_option(function: F) -> F:
    """The same for several keys."""
    return _option("File with the API key, if the service requires one, or with several, one per line, which "
                   "take turns")(function)  # fmt: skip


def _option(what: str) -> Callable[[F], F]:
    kind = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
    return click.option("--api-key-file", type=kind, help=f"{what}; by default the variable {API_KEY_VARIABLE}.")


def read_api_key(file: Path | None) -> str | None:
    """The key in `file`, or in the environment; None if there is none. Errors never show it."""
    keys = _keys(file, several=False)
    return keys[0] if keys else None


def read_api_keys(file: Path | None) -> tuple[str, ...]:
    """All keys in `file`, or in the environment, one on each line."""
    return _keys(file, several=True)


def _keys(file: Path | None, *, several: bool) -> tuple[str, ...]:
    where = API_KEY_VARIABLE if file is None else "--api-key-file"
    try:
        if file is None:
            text = os.environ.get(API_KEY_VARIABLE, "")
        elif str(file) == "-":
            stream = standard_input(f"--api-key-file FILE, or {API_KEY_VARIABLE}")
            text = stream.read() if several else stream.readline()
        else:
            text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"--api-key-file: {file} cannot be read as text", hint=_KEY_FILE) from None
    keys = tuple(line.strip() for line in text.split("\n") if line.strip())
    if not keys and file is None:
        return ()
    usable = all(key.isascii() and key.isprintable() and " " not in key for key in keys)
    if not keys or not usable or (len(keys) > 1 and not several):
        expected = "API keys, one on each line," if several else "one API key"
        hint = f"unset {API_KEY_VARIABLE}" if file is None else _KEY_FILE
        raise UsageError(f"{where}: expected {expected} and nothing else", hint=hint)
    return keys
