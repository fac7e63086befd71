"""Shared by `batch watch` and `batch submit --wait`: the display of a followed job, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import click

from rayllm_ctl.errors import NO_ANSWER
from rayllm_ctl.model.batch_events import BatchEnded, BatchEvent, BatchObserved
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.observed.batch_status import BatchHealth


def follow_to_end(
    ctx: click.Context,
    cluster: Any,
    name: str,
    namespace: str,
    timeout: float | None,
    output: str | None,
    uid: str = "",
) -> int:
    """Show a job until it ends; return the exit code. See workflows.batch.wait."""
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.workflows.batch.wait import EXIT_CODE, wait_for_job

    ctx.obj["failed"] = NO_ANSWER  # 1 means that too many rows have an error
    events = wait_for_job(cluster, name, namespace, timeout, uid=uid)
    with interruptible(f"the job {name} keeps running", *running_hints(name, namespace)):
        ended = show(ctx, events, output, (name, namespace))
    return EXIT_CODE[ended.outcome] if ended is not None else NO_ANSWER


def running_hints(name: str, namespace: str) -> tuple[str, str]:
    """What to type next about a job that keeps running."""
    return (
        f"rayllm-ctl batch watch {name} -n {namespace}     # follow it again",
        f"rayllm-ctl batch cancel {name} -n {namespace}    # stop it",
    )


def show(
    ctx: click.Context,
    events: Iterable[BatchEvent | Applied],
    output: str | None,
    followed: tuple[str, str] | None = None,
) -> BatchEnded | None:
    """Draw events on standard error and, with -o, write documents to standard output; return how the job ended.

    followed: name and namespace of a job of which each change is a document; None: the objects are one document.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_document
    from rayllm_ctl.cli.session import live_view
    from rayllm_ctl.console.batch.progress import choose_job_progress
    from rayllm_ctl.console.style import Printer

    style = Printer.on(sys.stderr, ctx.meta.get("rayllm.color", "auto"))
    ended: BatchEnded | None = None
    applied: list[Applied] = []
    write = _lines(*followed, output) if followed and output in MACHINE_FORMATS else None
    with choose_job_progress(style, live=live_view(ctx)) as progress:
        for event in events:
            progress.handle(event)
            if isinstance(event, BatchEnded):
                ended = event
            elif isinstance(event, BatchObserved) and write is not None:
                write(event.health)
            elif isinstance(event, Applied):
                applied.append(event)
                if output == "name":
                    click.echo(object_name(event.kind, event.name))
    if output in MACHINE_FORMATS and not followed:
        print_document("Rollout", {"applied": applied, "health": None}, output)
    return ended


def _lines(name: str, namespace: str, output: str) -> Callable[[BatchHealth], None]:
    """Writes a job's health as a document, unless only the time of the look is new."""
    before: BatchHealth | None = None

    def write(health: BatchHealth) -> None:
        from rayllm_ctl.cli.documents import print_line

        nonlocal before
        seen = replace(health, observed_at=None)
        if seen != before:
            print_line("BatchJobStatus", health, output, name=name, namespace=namespace)
        before = seen

    return write
