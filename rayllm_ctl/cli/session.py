"""Shared by running commands: the connection, the display, and data on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.kube_flags import KubeFlags
from rayllm_ctl.model.events import Applied, Event, Observed, Ready
from rayllm_ctl.model.text.json_form import to_json

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.console.observe.progress import Progress
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.model.observed.changes import Diff


def connect(kube: KubeFlags) -> Cluster:
    """The cluster that the flags and the kubeconfig name."""
    from rayllm_ctl.workflows.connect import connect as connect_to

    return connect_to(
        kube.kubeconfig,
        kube.context,
        request_timeout=kube.request_timeout,
        notify=lambda message: click.echo(message, err=True),
    )


def object_name(kind: str, name: str) -> str:
    """An object as `-o name` prints it: rayservice.ray.io/qwen, configmap/qwen."""
    from rayllm_ctl.model.kube.api_kinds import kind as kind_of

    return _resource_name(kind, kind_of(kind).group, name)


def _resource_name(kind: str, group: str, name: str) -> str:
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"


def printer(ctx: click.Context) -> Printer:
    """The style of standard output."""
    from rayllm_ctl.console.style import Printer

    return Printer.on(sys.stdout, ctx.meta.get("rayllm.color", "auto"))


def print_data(data: Any, output: str) -> None:
    """One document on standard output, as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        from rayllm_ctl.model.text.yaml_text import dump

        click.echo(dump(data), nl=False)


def print_manifests(manifests: Sequence[dict[str, Any]], output: str) -> None:
    """Manifests as canonical YAML, or as a v1 List in JSON, which kubectl reads as well."""
    if output == "json":
        click.echo(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}, indent=2, ensure_ascii=False)
        )
    elif output == "name":
        for manifest in manifests:
            group = manifest["apiVersion"].rpartition("/")[0]
            click.echo(_resource_name(manifest["kind"], group, manifest["metadata"]["name"]))
    else:
        from rayllm_ctl.model.text.yaml_text import dump_all

        click.echo(dump_all(manifests), nl=False)


def print_meaning(ctx: click.Context, diff: Diff) -> None:
    """Print the effect of a change on running pods to standard error, before it is applied."""
    from rayllm_ctl.console.rollout.diff import format_meaning
    from rayllm_ctl.console.style import Printer

    style = Printer.for_error(ctx.meta.get("rayllm.color", "auto"))
    for line in format_meaning(diff, style):
        style.line(line)
    for note in diff.notes:
        style.line(f"note: {note}")


class Display:
    """Draws events on standard error and, with -o, writes the result to standard output."""

    def __init__(self, progress: Progress[Event], output: str | None, follow: bool) -> None:
        self._progress, self._output, self._follow = progress, output, follow
        self._applied: list[Applied] = []
        self._last: Observed | Ready | None = None

    def handle(self, event: Event) -> None:
        """Draw one event; with -o json print a line for each observation of a followed service."""
        self._progress.handle(event)
        if isinstance(event, Applied):
            self._applied.append(event)
            if self._output == "name":
                click.echo(object_name(event.kind, event.name))
        elif isinstance(event, (Observed, Ready)):
            self._last = event
            if self._follow and self._output == "json":
                click.echo(json.dumps(to_json(event.health), ensure_ascii=False))

    def finish(self) -> None:
        """The one document of -o json or yaml."""
        if self._follow or self._output not in ("json", "yaml"):
            return
        health = to_json(self._last.health) if self._last else None
        applied = [
            {
                "kind": event.kind,
                "name": event.name,
                "namespace": event.namespace,
                "action": f"{event.action} (dry run)" if event.dry_run else event.action,
            }
            for event in self._applied
        ]
        print_data({"applied": applied, "health": health}, self._output)


def live_view(ctx: click.Context) -> bool:
    """Whether a live view may be redrawn: not in CI, and not between the lines of --verbose."""
    return not (ctx.meta.get("rayllm.debug") or ctx.meta.get("rayllm.verbose") or os.environ.get("CI"))


@contextmanager
def show(ctx: click.Context, output: str | None, follow: bool = False) -> Iterator[Display]:
    """A display for the events of one command; its document is written if the command succeeds."""
    from rayllm_ctl.console.observe.progress import choose_progress
    from rayllm_ctl.console.style import Printer

    style = Printer.on(sys.stderr, ctx.meta.get("rayllm.color", "auto"))
    with choose_progress(style, live=live_view(ctx)) as progress:
        display = Display(progress, output, follow)
        yield display
    display.finish()
