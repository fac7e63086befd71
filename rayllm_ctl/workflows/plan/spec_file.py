"""A spec file to start from: what the user said, what the planner decided, and what each field means."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.pin import pinned
from rayllm_ctl.specfile.commented import commented
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.plan.verdict import require_runnable


def spec_file(service: LLMService, facts: FactSources) -> tuple[str, Plan]:
    """The text of the spec file of `service`, and the plan whose values it has.

    Raises UserError where the service cannot run as it is stated, with what would; see workflows.plan for the rest.
    """
    plan = make_plan(service, facts)
    require_runnable(plan, accept_risk=True, outcome="nothing was written")
    header = "Fields marked as planned were decided by the planner; without them they are decided again each time."
    return commented(pinned(service, plan), service, header), plan
