"""The spec file of a batch job to start from: the user's and the planned values, with comments on each field."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.planner.pin import pinned_batch
from rayllm_ctl.specfile.commented import PLANNED, commented
from rayllm_ctl.workflows.plan.verdict import require_runnable
from rayllm_ctl.workflows.render.batch import make_batch_plan


def batch_file(batch: BatchJob, facts: FactSources) -> tuple[str, Plan]:
    """The text of the spec file of `batch`, and the plan with its values.

    Raises UserError if the job cannot run as specified, with alternatives; otherwise as make_batch_plan.
    """
    plan = make_batch_plan(batch, facts).plan
    require_runnable(plan, accept_risk=True, outcome="nothing was written")
    return commented(pinned_batch(batch, plan), batch, PLANNED), plan
