"""Jinja as this project uses it: undefined names fail, and every value goes through one filter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl.model.text.unique_keys import unique_key_loader
from rayllm_ctl.model.text.yaml_text import flow

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment


TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment(own: Path | None = None) -> Environment:
    """The environment of the package's templates; `yaml` is the one filter that may end an expression.

    own: a folder whose templates take precedence. They may come from anywhere, so they run in Jinja's sandbox, and
    their compiled form is not kept: the cache of the package's templates has code that no sandbox guards.
    Jinja costs about 100 ms to import, so only rendering pays for it.
    """
    import jinja2

    kind = jinja2.Environment
    if own is not None:
        from jinja2.sandbox import SandboxedEnvironment as kind

    env = kind(
        loader=jinja2.FileSystemLoader([TEMPLATES] if own is None else [own, TEMPLATES]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_bytecode_cache() if own is None else None,
        autoescape=False,
    )
    env.filters["yaml"] = _quoted
    env.filters["plain"] = _plain
    return env


def _bytecode_cache() -> BytecodeCache | None:
    """Compiled templates in the user's cache directory: compiling takes longer than all else that rendering does.

    None if there is no home directory, and where the directory cannot be written or belongs to somebody else, whose
    code would be run.
    """
    import jinja2
    from jinja2.bccache import Bucket

    class Cache(jinja2.FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):  # a full disk is not a reason not to render
                super().dump_bytecode(bucket)

    try:
        named = os.environ.get("XDG_CACHE_HOME")
        if not named and not Path.home().is_dir():
            return None
        folder = Path(named or Path.home() / ".cache") / "rayllm-ctl" / "templates"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK)
    except (OSError, RuntimeError):
        return None
    return Cache(str(folder)) if own else None


def _quoted(value: Any) -> str:
    import jinja2

    if isinstance(value, jinja2.Undefined):
        str(value)  # raises UndefinedError, with the name
    return flow(value)


def _plain(number: float) -> int | float:
    """2.0 as 2: figures as a person would write them."""
    return int(number) if number == int(number) else number


def template_text(template: str, values: Mapping[str, Any], own: Path | None = None) -> str:
    """`template` with `values`, without the blank lines that macros leave: no value brings one along. Errors as `fill`,
    of the user's own templates."""
    laid_out = environment(own).get_template(template).render(values)
    if own is not None:
        _read(laid_out, template)
    return "".join(line for line in laid_out.splitlines(keepends=True) if not line.isspace())


def fill(template: str, values: Mapping[str, Any], own: Path | None = None) -> Any:
    """`template` with `values`, read back as data; None if nothing is laid out for these values.

    yaml.YAMLError, with the template's name as a note, if it is not valid YAML or has a key twice.
    """
    return _read(environment(own).get_template(template).render(values), template)


def _read(laid_out: str, template: str) -> Any:
    import yaml

    try:
        return yaml.load(laid_out, _loader())  # noqa: S506  a safe loader
    except yaml.YAMLError as error:
        error.add_note(template)
        raise


@cache
def _loader() -> type[Any]:
    import yaml

    return unique_key_loader(yaml, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
