"""Names in the cluster for completion: asked for a moment, kept for some seconds, and left out if anything fails."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags

_REQUEST_SECONDS = 1.5
_ALL_SECONDS = 2.0
"""How long a user waits for names, requests and credential plugins included."""

_KEPT_SECONDS = 15.0
"""How long names are kept, and that there were none: a cluster that does not answer is not asked at each key."""


def services(ctx: click.Context, typed: str) -> list[str]:  # noqa: ARG001
    """The services of the namespace."""
    return _kept("services", ctx)


def jobs(ctx: click.Context, typed: str) -> list[str]:  # noqa: ARG001
    """The batch jobs of the namespace."""
    return _kept("jobs", ctx)


def namespaces(ctx: click.Context, typed: str) -> list[str]:  # noqa: ARG001
    """The namespaces of the cluster."""
    return _kept("namespaces", ctx)


def contexts(ctx: click.Context, typed: str) -> Iterable[str]:  # noqa: ARG001
    """The contexts of the kubeconfig, for which no cluster is asked."""
    from rayllm_ctl.errors import UserError
    from rayllm_ctl.workflows.setup.names import kubeconfig_contexts

    try:
        return kubeconfig_contexts(ctx.params.get("kubeconfig"))
    except UserError:
        return ()


def _kept(what: Literal["services", "jobs", "namespaces"], ctx: click.Context) -> list[str]:
    given = {name: ctx.params.get(name) for name in ("kubeconfig", "context", "namespace", "user", "groups")}
    if not isinstance(given["namespace"], str) or what == "namespaces":
        given["namespace"] = None
    file = _cache_file([what, given, os.environ.get("KUBECONFIG"), *_changed(given["kubeconfig"])])
    with suppress(OSError, ValueError):
        if file is not None and 0 <= time.time() - file.stat().st_mtime < _KEPT_SECONDS:
            return [str(name) for name in json.loads(file.read_text())]
    names = _within(_ALL_SECONDS, lambda: _asked(what, given))
    if file is not None:
        with suppress(OSError):
            temporary = file.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(names))
            temporary.replace(file)
    return names


def _asked(what: str, given: dict[str, Any]) -> list[str]:
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.setup.names import job_names, namespace_names, service_names

    namespace = given["namespace"]
    cluster = connect(
        KubeFlags(
            kubeconfig=given["kubeconfig"],
            context=given["context"],
            namespace=namespace,
            request_timeout=_REQUEST_SECONDS,
            user=given["user"],
            groups=given["groups"] or (),
        )
    )
    if what == "namespaces":
        return namespace_names(cluster)
    return service_names(cluster, namespace) if what == "services" else job_names(cluster, namespace)


def _within(seconds: float, work: Callable[[], list[str]]) -> list[str]:
    """What `work` returns; nothing if it fails or takes longer."""
    found: list[str] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(work())

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return [] if thread.is_alive() else found


def _changed(kubeconfig: str | None) -> list[Any]:
    """When the kubeconfig files were changed: another current context has other names."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    changed = []
    for path in named.split(os.pathsep):
        with suppress(OSError, RuntimeError):
            changed.append(Path(path).expanduser().stat().st_mtime_ns)
    return changed


def _cache_file(key: list[Any]) -> Path | None:
    """The file for what is kept; None without a folder that belongs to the user alone."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = Path(base) / "rayllm-ctl" / "completion"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            return None
    except (OSError, RuntimeError):
        return None
    with suppress(OSError):  # names of other namespaces and contexts, which nobody asks for any more
        for old in folder.iterdir():
            if time.time() - old.stat().st_mtime > 100 * _KEPT_SECONDS:
                old.unlink()
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return folder / f"{digest[:32]}.json"
