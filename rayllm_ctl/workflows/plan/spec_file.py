"""A spec file to start from: the user's and the planned values, with comments on each field."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.pin import pinned
from rayllm_ctl.specfile.commented import PLANNED, commented
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.plan.verdict import require_runnable


def spec_file(service: LLMService, facts: FactSources) -> tuple[str, Plan]:
    """The text of the spec file of `service`, and the plan with its values.

    Raises UserError if the service cannot run as specified, with alternatives; otherwise as make_plan.
    """
    plan = make_plan(service, facts)
    require_runnable(plan, accept_risk=True, outcome="nothing was written")
    return commented(pinned(service, plan), service, PLANNED), plan
