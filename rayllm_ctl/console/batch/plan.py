"""The plan of a batch job as text: its engine, then batches, time and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.console.plan.figures import banded, minutes
from rayllm_ctl.console.plan.one_model import body, headline, image_lines, security
from rayllm_ctl.console.rows import WIDTH, labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.plan.batch import BatchDeployment, BatchEstimate, BatchPlan


def batch_table(batch: BatchPlan, style: Printer, *, wide: bool = False) -> list[str]:
    """The plan as lines of text; wide: with the band of every figure."""
    # Without the deployment, which is for services.
    lines = [headline(batch.plan, style), *body(replace(batch.plan, deployment=None), wide, style)]
    if batch.deployment is None:
        return lines
    rows = [
        *(("takes", line) for line in _takes(batch)),
        *(("batch", line) for line in _work(batch, batch.deployment)),
        *(("image", line) for line in image_lines(batch.deployment.runtime)),
        *(("security", line) for line in security(batch.plan)),
    ]
    return [*lines, "", *labelled(rows, style.width(WIDTH), style)]


def takes(estimate: BatchEstimate) -> str:
    """Time and cost of the rows."""
    seconds = estimate.seconds
    low, typical, high = map(_long, (seconds.low, seconds.typical, seconds.high))
    cost = "" if estimate.cost is None else f", {banded(estimate.cost, '{:,.2f}')} USD"
    return f"{estimate.rows:,} row{'' if estimate.rows == 1 else 's'} in about {typical} ({low} to {high}){cost}"


def _takes(batch: BatchPlan) -> Iterator[str]:
    if batch.estimate is None:
        yield f"unknown: {batch.estimate_note}"
    else:
        yield takes(batch.estimate)
        yield f"assumes {batch.estimate.assumption}"


def _work(batch: BatchPlan, deployment: BatchDeployment) -> Iterator[str]:
    low, high = batch.concurrency.min, batch.concurrency.max
    replicas = f"{low}" if low == high else f"{low} to {high}"
    where = f"workers 0 to {deployment.worker.max_workers}"
    if deployment.cluster is not None:
        where = f"raycluster {deployment.cluster}"
    yield (
        f"{replicas} replica{'' if high == 1 else 's'} · {where} · "
        f"{batch.batches} batches of {batch.batch_size} rows each"
    )


def _long(seconds: float) -> str:
    return minutes(seconds) if seconds < 5400 else format_duration(round(seconds / 60) * 60)
