"""Kubeconfig files: found, merged and resolved the way kubectl does it.

As in kubectl, the first file of KUBECONFIG that names a current context, or defines an entry, wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.text.problems import quoted

_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""Keys whose values are paths relative to their file, by section."""

_INNER = {"clusters": "cluster", "contexts": "context", "users": "user"}


@dataclass(frozen=True)
class Chosen:
    """One context of the merged files with absolute paths. `user` is empty for anonymous access."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user_name: str
    user: Mapping[str, Any]


def find_files(kubeconfig: str | None, named_by: str = "--kubeconfig") -> list[Path]:
    """The kubeconfig files to read: those of the flag, else of KUBECONFIG (a list of paths), else ~/.kube/config.

    Empty if none was named and the default does not exist. UsageError if all named files are missing, with what
    `kubeconfig` was named by.
    """
    named = kubeconfig if kubeconfig is not None else os.environ.get("KUBECONFIG", "")
    paths = [Path(path).expanduser() for path in named.split(os.pathsep) if path]
    if not paths:
        default = Path("~/.kube/config").expanduser()
        return [default] if default.exists() else []
    existing = [path for path in paths if path.exists()]
    if not existing:
        origin = named_by if kubeconfig is not None else "KUBECONFIG"
        missing = ", ".join(str(path) for path in paths)
        raise UsageError(
            f"kubeconfig {missing} does not exist (from {origin})",
            hint=(
                "--kubeconfig PATH    # an existing file",
                "unset KUBECONFIG    # then ~/.kube/config is used" if kubeconfig is None else "",
            ),
        )
    return existing


def choose(files: Sequence[Path], context: str | None) -> Chosen:
    """Merge `files` and pick `context`, or the current one. UsageError names the wrong file, context or entry."""
    current = ""
    sections: dict[str, dict[str, Mapping[str, Any]]] = {section: {} for section in _INNER}
    for file in files:
        content = _read(file)
        # The first file that defines an entry wins, as in kubectl.
        current = current or str(content.get("current-context") or "")
        for section, entries in sections.items():
            for name, entry in _entries(file, content, section).items():
                entries.setdefault(name, entry)
    shown = ", ".join(str(file) for file in files)
    name = context or current
    if not name:
        raise UsageError(
            f"kubeconfig {shown} has no current context",
            hint=("name one with --context", f"contexts: {', '.join(sections['contexts']) or 'none'}"),
        )
    chosen = sections["contexts"].get(name)
    if chosen is None:
        raise _no_context(name, shown, sections["contexts"])
    cluster = sections["clusters"].get(str(chosen.get("cluster")))
    if cluster is None or not cluster.get("server"):
        raise UsageError(
            f"context {quoted(name)} of kubeconfig {shown} names cluster {quoted(str(chosen.get('cluster') or ''))}, "
            + ("which does not exist" if cluster is None else "which has no server"),
            hint=f"kubectl config view --minify --context {name}",
        )
    if not _is_address(str(cluster["server"])):
        raise UsageError(
            f"{quoted(str(cluster['server']))}, the server of context {quoted(name)} in kubeconfig {shown}, is not the "
            "address of an API server",
            hint=f"kubectl config view --minify --context {name}",
        )
    user_name = str(chosen.get("user") or "")
    user = sections["users"].get(user_name)
    if user is None and user_name:
        raise UsageError(
            f"context {quoted(name)} of kubeconfig {shown} names user {quoted(user_name)}, which does not exist",
            hint=f"kubectl config view --minify --context {name}",
        )
    return Chosen(name, str(chosen.get("namespace") or "default"), cluster, user_name, user or {})


def _is_address(server: str) -> bool:
    """Whether a server has a host and a possible port; without a scheme it is as one with http://."""
    try:
        found = urlsplit(server if "://" in server else f"http://{server}")
        port = found.port
    except ValueError:
        return False
    is_host = bool(found.hostname) and not re.search(r"\s", server)
    return found.scheme in ("http", "https") and is_host and port != 0


def context_names(kubeconfig: str | None) -> list[str]:
    """The contexts of the kubeconfig files that `kubeconfig` or the environment names. UsageError if one is invalid."""
    found = (_entries(file, _read(file), "contexts") for file in find_files(kubeconfig))
    return list(dict.fromkeys(name for entries in found for name in entries))


def _no_context(name: str, where: str, contexts: Mapping[str, Any]) -> UsageError:
    close = nearest(name, contexts)
    hints = [f"did you mean --context {close}?"] if close else []
    hints.append(f"contexts: {', '.join(contexts)}" if contexts else "the file has no contexts at all")
    return UsageError(f"kubeconfig {where} has no context {quoted(name)}", hint=hints)


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(file.read_text())
    except OSError as error:
        raise UsageError(f"kubeconfig {file} cannot be read: {error.strerror}", hint=f"ls -l {file}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"kubeconfig {file} is not text", hint=f"file {file}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        # The parser's message quotes the file, which contains credentials: only the line number is shown.
        raise UsageError(f"kubeconfig {file}{line} is not valid YAML", hint="kubectl config view") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise UsageError(f"kubeconfig {file} has no clusters, contexts and users", hint="kubectl config view")
    return content


def _entries(file: Path, content: Mapping[str, Any], section: str) -> dict[str, Mapping[str, Any]]:
    entries = content.get(section) or []
    malformed = UsageError(
        f"kubeconfig {file}: {section} is not a list of name and {_INNER[section]}", hint="kubectl config view"
    )
    if not isinstance(entries, list):
        raise malformed
    result: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise malformed
        inner = entry.get(_INNER[section]) or {}
        if not isinstance(inner, Mapping):
            raise malformed
        result.setdefault(str(entry["name"]), _absolute(inner, section, file.parent))
    return result


def _absolute(entry: Mapping[str, Any], section: str, folder: Path) -> Mapping[str, Any]:
    resolved = dict(entry)
    for key in _PATHS.get(section, ()):
        if resolved.get(key):
            resolved[key] = str((folder / str(resolved[key])).resolve())
    plugin = resolved.get("exec")
    if isinstance(plugin, Mapping) and "/" in str(plugin.get("command", "")):
        resolved["exec"] = {**plugin, "command": str((folder / str(plugin["command"])).resolve())}
    return resolved
