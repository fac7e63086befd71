"""Check of a plan's verdict."""

from __future__ import annotations

from rayllm_ctl.errors import RiskyPlanError, UserError
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.checks.engine_args import DATA_PARALLEL, DATA_PARALLEL_INSTEAD


def require_runnable(plan: Plan, *, accept_risk: bool, outcome: str = "nothing was rendered or applied") -> None:
    """Raise UserError unless the plan may be deployed. outcome: the consequence, for the message."""
    engines = (one.engine for one in plan.each.values() if one.engine is not None)
    if plan.runs and any(engine.args.get("data_parallel_size") not in (None, 1) for engine in engines):
        raise UserError(f"{DATA_PARALLEL}\n{outcome}", hint=DATA_PARALLEL_INSTEAD)
    if plan.verdict == "fits" or (plan.verdict == "risky" and (accept_risk or not plan.proven)):
        return
    message = "\n".join(reason.message for reason in plan.reasons) or f"the plan for {plan.model} is {plan.verdict}"
    hints = [f"{change.flags}  {change.effect}" for change in plan.suggestions]
    hints += [reason.suggestion for reason in plan.reasons if reason.suggestion and not plan.suggestions]
    failure = RiskyPlanError if plan.verdict == "risky" else UserError
    raise failure(f"{message}\n{outcome}", hint=tuple(dict.fromkeys(hints)))
