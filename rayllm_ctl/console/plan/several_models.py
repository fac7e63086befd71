"""A plan of several models as text: a table of each, and the sum."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.console.plan.figures import minutes
from rayllm_ctl.console.plan.gateway import gateway_lines
from rayllm_ctl.console.plan.one_model import (
    MARKS,
    body,
    cost_line,
    group_line,
    headline,
    image_lines,
    security,
    verdict_words,
)
from rayllm_ctl.console.rows import WIDTH, labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.totals import Range, totals


def tables(plan: Plan, style: Printer, *, wide: bool) -> list[str]:
    """The table of each model, and the sum."""
    lines: list[str] = []
    for name, one in plan.each.items():
        lines += [headline(one, style, name), *body(one, wide, style, alone=False), ""]
    count = f"{len(plan.each)} model{'' if len(plan.each) == 1 else 's'}"
    lines.append(f"{style.symbol(MARKS[plan.verdict])} {count}: {verdict_words(plan)}")
    rows = list(_sum(plan))
    return [*lines, "", *labelled(rows, style.width(WIDTH), style)] if rows else lines


def together(plan: Plan) -> Iterator[str]:
    """Resources and cost of the models at the minimum and maximum number of replicas."""
    found = totals(plan)
    if found is None:
        return
    gpus = [f"{_range(count)} {name}" for name, count in found.gpus.items()]
    pods = f"{_range(found.pods)} pods with {_range(found.cpu)} CPU and {_range(found.memory_bytes, GIB)} GiB"
    yield " · ".join([*gpus, pods])
    if found.cost is not None:
        yield cost_line(found.cost, wide=False)


def _sum(plan: Plan) -> Iterator[tuple[str, str]]:
    yield from (("together", line) for line in together(plan))
    if plan.startup:
        yield "ready in", f"about {minutes(plan.startup.total.typical)}, when the slowest model is"
    if plan.deployment:
        yield "layout", group_line(plan.deployment.worker_groups[0])
        yield from (("gateway", line) for line in gateway_lines(plan.deployment))
        yield from (("image", line) for line in image_lines(plan.deployment.runtime))
    # The table of a model shows why it does not run.
    own = {reason.code for one in plan.each.values() for reason in one.reasons}
    yield from (("why", reason.message) for reason in plan.reasons if reason.code not in own)
    yield from (("security", line) for line in security(plan))
    yield from (("note", line) for line in (*plan.warnings, *plan.notes))


def _range(count: Range, unit: float = 1) -> str:
    low, high = (f"{size / unit:,.4g}" for size in (count.min, count.max))
    return low if low == high else f"{low} to {high}"
