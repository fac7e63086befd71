"""A spec file to start from: what the user said, what the planner decided, and what each field means."""

from __future__ import annotations

from rayllm_ctl.model.factsources import FactSources
from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService


def spec_file(service: LLMService, facts: FactSources) -> tuple[str, Plan]:
    """The text of the spec file of `service`, and the plan whose values it has.

    Raises UserError where the service cannot run as it is stated, with what would; see workflows.plan for the rest.
    """
    from rayllm_ctl.planner.pin import pinned
    from rayllm_ctl.specfile.commented import commented
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import require

    plan = make_plan(service, facts)
    require(plan, accept_risk=True, outcome="nothing was written")
    header = "Fields marked as planned were decided by the planner; without them they are decided again each time."
    return commented(pinned(service, plan), service, header), plan
