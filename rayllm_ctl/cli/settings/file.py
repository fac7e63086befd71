"""The configuration file: where it is, what is in it, and how one setting in it is changed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rayllm_ctl.cli.settings.names import setting_fields
from rayllm_ctl.errors import UsageError, not_written
from rayllm_ctl.files import file_to_replace, replace_file
from rayllm_ctl.frozen import dataclass

CONFIG_VARIABLE = "RAYLLM_CONFIG"
_MAX_BYTES = 64 * 1024
_COMMENT = re.compile(r"\s+#.*$")


@dataclass(frozen=True)
class ConfigEntry:
    """The value of a setting in the file, and its line."""

    value: Any
    line: int


def config_path() -> Path | None:
    """The configuration file: $RAYLLM_CONFIG, else rayllm-ctl/config.yaml in $XDG_CONFIG_HOME or ~/.config.

    None if there is no home directory. The file need not exist.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117  relative paths are to be ignored (XDG Base Directory Specification)
        base = os.path.expanduser("~/.config")  # noqa: PTH111  Path.expanduser raises an error without a home
    return Path(base, "rayllm-ctl", "config.yaml") if os.path.isabs(base) else None  # noqa: PTH117


def read_config_file() -> Mapping[str, ConfigEntry]:
    """The settings in the configuration file; empty if there is none. UsageError, with the line of each problem."""
    path = config_path()
    if path is None:
        return {}
    try:
        found = path.stat()
    except FileNotFoundError:
        if os.environ.get(CONFIG_VARIABLE):
            raise UsageError(
                f"{path}: no such file (from {CONFIG_VARIABLE})", hint=f"unset {CONFIG_VARIABLE}"
            ) from None
        return {}
    except OSError as error:
        raise _unreadable(path, error) from None
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int, size: int) -> Mapping[str, ConfigEntry]:  # noqa: ARG001  which version is in the cache
    return parse_config(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path}: the file is larger than {_MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: the file is not valid UTF-8") from None


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be read: {error.strerror}", hint=f"ls -l {path}")


def parse_config(text: str, source: str) -> Mapping[str, ConfigEntry]:
    """The settings in `text`. UsageError for anything that is not a mapping, with a line for each unknown name."""
    from rayllm_ctl.specfile.tree import Keys, plain, read_tree

    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    root = read_tree(text, source)
    if not isinstance(root.value, Keys):
        raise UsageError(
            f"{source}:{root.line}: expected settings, such as namespace: llm", hint="rayllm-ctl config view"
        )
    keys = root.value
    unknown = [unknown_name(name, f"{source}:{keys.lines[name]}: ") for name in keys if name not in setting_fields()]
    if unknown:
        hints = [hint for one in unknown for hint in one.hints]
        raise UsageError("\n".join(one.message for one in unknown), hint=list(dict.fromkeys(hints)))
    return {name: ConfigEntry(plain(node), keys.lines[name]) for name, node in keys.items()}


def unknown_name(name: str, where: str = "") -> UsageError:
    """The error for a name that no setting has."""
    from rayllm_ctl.model.kube.names import did_you_mean
    from rayllm_ctl.model.text.problems import quoted

    dashed = re.sub(r"([a-z])([A-Z])", r"\1-\2", name).replace("_", "-").lower()
    close = dashed if dashed in setting_fields() else ""
    hint = f"did you mean {close}?" if close else did_you_mean(dashed, setting_fields())
    return UsageError(
        f"{where}unknown setting {quoted(name)}", hint=hint or "rayllm-ctl config view    # lists all settings"
    )


def file_to_change(path: Path) -> Path:
    """`file_to_replace` of a configuration file. UsageError for what is not a file."""
    return file_to_replace(path, f"export {CONFIG_VARIABLE}=PATH")


def change_config(path: Path, name: str, value: Any) -> bool:
    """Set `name` in the file at `path`, or remove it if `value` is None. Return whether the file has changed.

    Comments and the order of the others stay as they are. The file is replaced as a whole. UsageError if the file is
    invalid, UserError if it cannot be written.
    """
    target = file_to_change(path)
    old = _text(target) if target.exists() else ""
    entries = {key: entry.value for key, entry in parse_config(old, str(path)).items()}
    if entries.get(name) == value:
        return False
    wanted = {key: one for key, one in entries.items() if key != name} | ({} if value is None else {name: value})
    new = _edited(old, name, value)
    if _values(new, path) != wanted:  # for example a mapping in braces
        new = _dumped(wanted) if wanted else ""
    _replace(target, new)
    return True


def _values(text: str, path: Path) -> Mapping[str, Any] | None:
    try:
        return {key: entry.value for key, entry in parse_config(text, str(path)).items()}
    except UsageError:
        return None


def _edited(text: str, name: str, value: Any) -> str:
    """`text` with the lines of one setting replaced; appended if there are none."""
    new = [] if value is None else _dumped({name: value}).splitlines()
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if re.match(rf"{re.escape(name)}\s*:", line)), None)
    if start is None:
        return "\n".join([*lines, *new]) + "\n"
    end = next((number for number in range(start + 1, len(lines)) if re.match(r"[^\s#-]", lines[number])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1  # comments before the next setting belong to it
    comment = _COMMENT.search(lines[start])
    if comment and len(new) == 1 and not re.search("[\"']", lines[start]):
        new[0] += comment[0]
    return "".join(f"{line}\n" for line in (*lines[:start], *new, *lines[end:]))


def _dumped(values: Mapping[str, Any]) -> str:
    from rayllm_ctl.model.text.yaml_text import dump

    return dump(values, sort=False)


def _replace(target: Path, text: str) -> None:
    """Replace the file at once. Only its owner may read a new file; an existing one keeps its mode."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(target, text, mode=0o600)
    except OSError as error:
        raise not_written(target, error) from None
