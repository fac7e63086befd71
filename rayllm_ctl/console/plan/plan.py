"""A plan for people, of one model or of several."""

from __future__ import annotations

from rayllm_ctl.console.plan.one_model import body, headline, short
from rayllm_ctl.console.plan.several_models import tables, together
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.plan.plan import Plan


def summary(plan: Plan) -> list[str]:
    """The plan in three lines per model, for commands that continue with it."""
    if plan.models is None:
        return short(plan)
    return [*(line for one in plan.models.values() for line in short(one)), *together(plan)]


def table(plan: Plan, style: Printer, *, wide: bool = False) -> list[str]:
    """The plan as lines of text; wide: with the band of every figure. Several models have a table each, and a sum."""
    if plan.models is None:
        return [headline(plan, style), *body(plan, wide, style)]
    return tables(plan, style, wide=wide)
