"""Shared by running commands: the connection, the display, and the style of standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_document, print_line
from rayllm_ctl.cli.kube_flags import KubeFlags
from rayllm_ctl.model.events import Applied, Downloading, Event, Observed, Ready

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.console.observe.progress import Progress
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.model.observed.changes import Diff
    from rayllm_ctl.model.observed.model_downloads import ModelDownload


def connect(kube: KubeFlags) -> Cluster:
    """The cluster that the flags and the kubeconfig name."""
    from rayllm_ctl.cli.parsing.typed import flag_as_typed
    from rayllm_ctl.workflows.connect import connect as connect_to

    return connect_to(
        kube.kubeconfig,
        kube.context,
        acting_as=(kube.user, kube.groups) if kube.user is not None else None,
        request_timeout=kube.request_timeout,
        notify=lambda message: click.echo(message, err=True),
        kubeconfig_from=flag_as_typed("--kubeconfig"),
    )


def printer(ctx: click.Context) -> Printer:
    """The style of standard output."""
    from rayllm_ctl.console.style import Printer

    return Printer.on(sys.stdout, ctx.meta.get("rayllm.color", "auto"))


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

    def __init__(self, progress: Progress[Event], output: str | None) -> None:
        self._progress, self._output = progress, output
        self._applied: list[Applied] = []
        self._downloads: dict[str, ModelDownload] = {}
        self._last: Observed | Ready | None = None

    def handle(self, event: Event) -> None:
        """Draw one event; with -o name print each object. What is being done is not stopped by a reader that ends."""
        with suppress(BrokenPipeError):
            self._draw(event)

    def _draw(self, event: Event) -> None:
        self._progress.handle(event)
        if isinstance(event, Applied):
            self._applied.append(event)
            if self._output == "name":
                click.echo(object_name(event.kind, event.name))
        elif isinstance(event, Downloading):
            self._downloads[event.download.job] = event.download
        elif isinstance(event, (Observed, Ready)):
            self._last = event

    def finish(self) -> None:
        """Print the one document of -o json or yaml."""
        if self._output in MACHINE_FORMATS:
            health = self._last.health if self._last else None
            downloads = {"downloads": list(self._downloads.values())} if self._downloads else {}
            print_document("Rollout", {"applied": self._applied, "health": health, **downloads}, self._output)


class FollowedDisplay(Display):
    """Writes a document for each observation, and none at the end."""

    def __init__(self, progress: Progress[Event], output: str | None, name: str, namespace: str) -> None:
        super().__init__(progress, output)
        self._name, self._namespace = name, namespace

    def handle(self, event: Event) -> None:
        self._draw(event)
        if isinstance(event, (Observed, Ready)) and self._output in MACHINE_FORMATS:
            print_line("ServiceStatus", event.health, self._output, name=self._name, namespace=self._namespace)

    def finish(self) -> None:
        """Everything is printed."""


def live_view(ctx: click.Context) -> bool:
    """Whether a live view may be redrawn: not in CI, and not between the lines of --verbose."""
    return not (ctx.meta.get("rayllm.debug") or ctx.meta.get("rayllm.verbose") or os.environ.get("CI"))


@contextmanager
def show(ctx: click.Context, output: str | None, followed: tuple[str, str] | None = None) -> Iterator[Display]:
    """A display for the events of one command; its document is written if the command succeeds.

    followed: name and namespace of a service of which each observation is a document.
    """
    from rayllm_ctl.console.observe.progress import choose_progress
    from rayllm_ctl.console.style import Printer

    style = Printer.on(sys.stderr, ctx.meta.get("rayllm.color", "auto"))
    with choose_progress(style, live=live_view(ctx)) as progress:
        display = FollowedDisplay(progress, output, *followed) if followed else Display(progress, output)
        yield display
    display.finish()
