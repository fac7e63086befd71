"""Shared by `batch watch` and `batch submit --wait`: the display of a followed job, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from rayllm_ctl.errors import BATCH_FAILED
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

    ctx.obj["failed"] = BATCH_FAILED  # 1 means that too many rows have an error
    events = wait_for_job(cluster, name, namespace, timeout, uid=uid)
    follow = f"rayllm-ctl batch watch {name} -n {namespace}     # follow it again"
    undo = f"rayllm-ctl batch cancel {name} -n {namespace}    # stop it"
    with interruptible(f"the job {name} keeps running", follow, undo):
        ended = show(ctx, events, output)
    return EXIT_CODE[ended.outcome] if ended is not None else BATCH_FAILED


def show(ctx: click.Context, events: Iterable[BatchEvent | Applied], output: str | None) -> BatchEnded | None:
    """Draw events on standard error and, with -o json, write them to standard output; return how the job ended."""
    from rayllm_ctl.cli.session import live_view, object_name
    from rayllm_ctl.console.batch.progress import choose_job_progress
    from rayllm_ctl.console.style import Printer

    style = Printer.on(sys.stderr, ctx.meta.get("rayllm.color", "auto"))
    ended: BatchEnded | None = None
    write = _json_lines()
    with choose_job_progress(style, live=live_view(ctx)) as progress:
        for event in events:
            progress.handle(event)
            if isinstance(event, BatchEnded):
                ended = event
            elif isinstance(event, BatchObserved) and output == "json":
                write(event.health)
            elif isinstance(event, Applied) and output == "name":
                click.echo(object_name(event.kind, event.name))
    return ended


def _json_lines() -> Callable[[BatchHealth], None]:
    """Writes a job's health on one line, unless only the time of the look is new."""
    from rayllm_ctl.model.text.json_form import to_json

    before: Any = None

    def write(health: BatchHealth) -> None:
        nonlocal before
        found = to_json(health)
        seen = {key: value for key, value in found.items() if key != "observedAt"}
        if seen != before:
            click.echo(json.dumps(found, ensure_ascii=False))
        before = seen

    return write
