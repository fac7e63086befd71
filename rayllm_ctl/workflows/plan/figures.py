"""A plan in a few figures, as the status of an LLMService has them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.plan.plan import Plan

VERDICT_WORDS = {"does-not-fit": "DoesNotFit", "invalid": "InvalidSpec", "risky": "Risky", "fits": "Fits"}


def plan_figures(plan: Plan) -> dict[str, Any]:
    """A plan as the status shows it. usdPerHour: at the minimum number of replicas, by list prices."""
    parts = list((plan.models or {}).values()) or [plan]
    figures: dict[str, Any] = {"verdict": VERDICT_WORDS[plan.verdict]}
    gpus = [(one.parallelism.gpus_per_replica, one.parallelism) for one in parts if one.parallelism and one.gpu]
    kinds = dict.fromkeys(one.gpu.name for one in parts if one.gpu)
    if kinds:
        figures["gpu"] = ", ".join(kinds)
    if gpus:
        figures["gpus"] = sum(each * spread.replicas for each, spread in gpus)
    if len(parts) == 1:
        figures |= _one_model(parts[0])
    prices = [one.cost.per_hour.typical for one in parts if one.cost is not None and one.cost.known]
    if prices and len(prices) == len(parts):
        figures["usdPerHour"] = round(sum(prices), 2)
    return figures


def _one_model(plan: Plan) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if plan.parallelism is not None:
        figures |= {
            "tensorParallel": plan.parallelism.tensor,
            "pipelineParallel": plan.parallelism.pipeline,
            "gpusPerReplica": plan.parallelism.gpus_per_replica if plan.gpu else 0,
        }
    if plan.engine is not None:
        figures["contextLength"] = plan.engine.max_model_len
    if plan.startup is not None:
        figures["startupSeconds"] = plan.startup.deploy_wait_seconds
    return figures
