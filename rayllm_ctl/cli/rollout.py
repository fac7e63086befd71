"""Shared by commands that roll out a change: the display, and the report of an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rayllm_ctl.cli.documents import print_manifests
from rayllm_ctl.cli.session import Display
from rayllm_ctl.errors import INTERRUPTED, FieldConflictError, UserError
from rayllm_ctl.model.events import Applied, Downloading, Event, Noted, Ready, Rendered
from rayllm_ctl.model.observed.model_downloads import DownloadState
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.workflows.rollout.deploy import runs_a_service
from rayllm_ctl.workflows.rollout.next_steps import how_to_use

T = TypeVar("T")


def roll_out(display: Display, events: Iterable[Event | Rendered]) -> None:
    """Show `events`, then how to use the service. An interruption reports which objects were applied."""
    started: Applied | None = None
    downloading: Downloading | None = None
    rendered = Rendered(())
    try:
        with conflicts_can_be_forced():
            for event in events:
                if isinstance(event, Rendered):
                    rendered = event
                    continue
                display.handle(event)
                if isinstance(event, Applied) and runs_a_service(event):
                    started = event
                elif isinstance(event, Downloading):
                    downloading = event
                elif isinstance(event, Ready) and rendered.manifests:
                    for line in how_to_use(rendered.manifests, event):
                        display.handle(Noted(line))
    except KeyboardInterrupt:
        raise _interrupted(started, downloading) from None


def submitted(
    display: Display, events: Iterable[Event | Rendered], hints: Callable[[str, str], Sequence[str]]
) -> float:
    """Show the events of a submission; the seconds for which it waited for a download.

    An interruption reports what continues. hints: for a job of this name and namespace that was applied.
    """
    applied: Applied | None = None
    downloading: Downloading | None = None
    try:
        with conflicts_can_be_forced():
            for event in events:
                if isinstance(event, Rendered):
                    continue
                if isinstance(event, Applied) and event.kind == "RayJob" and event.action != "deleted":
                    applied = event
                elif isinstance(event, Downloading):
                    downloading = event
                display.handle(event)
    except KeyboardInterrupt:
        if applied is not None and not applied.dry_run:
            message = f"interrupted: the job {applied.name} keeps running"
            raise UserError(message, hint=hints(applied.name, applied.namespace), exit_code=INTERRUPTED) from None
        if downloading is not None:
            raise download_continues(downloading, "; the batch job was not applied") from None
        raise UserError("interrupted: the batch job was not applied", exit_code=INTERRUPTED) from None
    return downloading.elapsed if downloading is not None else 0.0


def fetched(display: Display, events: Iterable[Event | Rendered]) -> None:
    """Show the events of a download without a service. An interruption reports that it continues."""
    downloading: Downloading | None = None
    try:
        with conflicts_can_be_forced():
            for event in events:
                if isinstance(event, Rendered):
                    continue
                display.handle(event)
                if isinstance(event, Downloading):
                    downloading = event
    except KeyboardInterrupt:
        if downloading is None:
            raise
        raise download_continues(downloading) from None


def print_rendered(events: Iterable[Event | Rendered], output: str | None) -> None:
    """Print the manifests in `events`, all as one, and notes on standard error; nothing is applied."""
    manifests: list[Mapping[str, Any]] = []
    for event in events:
        if isinstance(event, Rendered):
            manifests += event.manifests
        elif isinstance(event, Noted):
            click.echo(event.message, err=True)
    print_manifests(manifests, output or "yaml")


def rolled_out_as(ctx: click.Context, services: Iterable[T], upgrade: Way) -> list[T]:
    """The services of spec files, with --upgrade of the command, if it was given, in place of their spec.rollout."""
    if ctx.get_parameter_source("upgrade") is ParameterSource.DEFAULT:
        return list(services)
    return [replace(one, rollout=upgrade) if isinstance(one, LLMService) else one for one in services]


@contextmanager
def conflicts_can_be_forced() -> Iterator[None]:
    """Name the flag that takes over fields of other managers."""
    try:
        yield
    except FieldConflictError as error:
        take_over = "--force-conflicts    # takes over these fields; their owner loses them"
        raise FieldConflictError(error.message, hint=(take_over, *error.hints)) from error


def _interrupted(started: Applied | None, downloading: Downloading | None) -> UserError:
    if started is None and downloading is not None:
        return download_continues(downloading, "; the service was not applied")
    if started is None or started.dry_run:
        return UserError("interrupted: nothing was applied", exit_code=INTERRUPTED)
    what, where = f"{started.kind.lower()}/{started.name}", f"{started.name} -n {started.namespace}"
    if started.action == "unchanged":
        message = f"interrupted: {what} was not changed; only the wait has ended"
    else:
        message = f"interrupted: {what} was {started.action}, and the cluster keeps starting it"
    follow = f"rayllm-ctl watch {where}     # follow it"
    undo = f"rayllm-ctl delete {where}    # undo it" if started.action == "created" else ""
    return UserError(message, hint=tuple(filter(None, (follow, undo))), exit_code=INTERRUPTED)


def download_continues(event: Downloading, more: str = "") -> UserError:
    """The error of an interruption during a download. more: what else there is to know."""
    job, where = event.download.job, f"-n {event.namespace}"
    if event.download.state is DownloadState.COMPLETE:
        message = f"interrupted: {event.download.model} is downloaded{more}"
        return UserError(message, hint="run the command again", exit_code=INTERRUPTED)
    return UserError(
        f"interrupted: job/{job} continues to download {event.download.model}{more}",
        hint=(
            f"kubectl logs job/{job} {where} -f    # follow it; run the command again to wait for it",
            f"kubectl delete job {job} {where}     # stop it; another one continues with what is there",
        ),
        exit_code=INTERRUPTED,
    )
