"""Several models of one service as one plan: each as it would be alone, on one Ray cluster behind one ingress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.plan.plan import Band, Cost, Plan, Reason, Suggestion, UnknownCost, Verdict
from rayllm_ctl.model.spec.checks.engine_args import OWN_FIELD
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.several_models import each_model
from rayllm_ctl.planner.deployment.deployment import behind_an_ingress, deployed, longest, with_notes

_FIELDS = {
    **{flag: field.removeprefix("spec.") for field, flag in OWN_FIELD.values()},
    "--gpu": "accelerator.gpu",
    "--replicas": "replicas.max",
    "--memory": "resources.worker.memory",
}
"""The fields of a model that flags set which suggestions name."""

_FLAG = r"(--[a-z-]+) ([^\s;,]+)( (?=--)|)"

_WORST: tuple[Verdict, ...] = ("invalid", "does-not-fit", "risky", "fits")


def joint_plan(plans: Mapping[str, Plan], service: LLMService, runtime: Runtime) -> Plan:
    """The plan of `service` from those of its models by their short names, which have no deployment yet."""
    alone = each_model(service)
    placed = {name: _placed(name, plan, alone[name], runtime) for name, plan in plans.items()}
    verdict = min((plan.verdict for plan in placed.values()), key=_WORST.index)
    reasons = tuple(_named(placed))
    images = {plan.deployment.runtime.image for plan in placed.values() if plan.deployment}
    if verdict in ("fits", "risky") and len(images) > 1:
        verdict, reasons = "invalid", (*reasons, _no_common_image(placed))
    joint = Plan(
        verdict=verdict,
        model=", ".join(plan.model for plan in placed.values()),
        facts_source="",
        reasons=reasons,
        startup=longest(placed.values()),
        cost=_sum(plan.cost for plan in placed.values()),
        suggestions=tuple(
            Suggestion(f"{name}: {change.flags}", change.effect)
            for name, plan in placed.items()
            for change in plan.suggestions
        ),
        warnings=tuple(dict.fromkeys(warning for plan in placed.values() for warning in plan.warnings)),
        proven=all(plan.proven for plan in placed.values() if plan.verdict == "risky"),
        models=placed,
    )
    if not joint.runs:
        return joint
    return with_notes(joint, service, behind_an_ingress(service, placed))


def _placed(name: str, plan: Plan, service: LLMService, runtime: Runtime) -> Plan:
    """`plan` with a deployment whose group of workers is called like the model, and suggestions for its entry."""
    found = deployed(plan, service, runtime, name)
    found = replace(
        found,
        reasons=tuple(replace(reason, suggestion=_as_fields(reason.suggestion)) for reason in found.reasons),
        suggestions=tuple(replace(change, flags=_as_fields(change.flags)) for change in found.suggestions),
    )
    if found.deployment is None:
        return found
    groups = tuple(replace(group, name=name) for group in found.deployment.worker_groups)
    return replace(found, deployment=replace(found.deployment, worker_groups=groups))


def _as_fields(flags: str) -> str:
    """Flags as fields of an entry of spec.models: --gpu L4 --tp 2 as accelerator.gpu: L4, parallelism.tensor: 2."""

    def field(found: re.Match[str]) -> str:
        name = _FIELDS.get(found[1])
        return found[0] if name is None else f"{name}: {found[2]}{',' if found[3] == ' ' else ''}{found[3]}"

    return re.sub(_FLAG, field, flags).replace("spec.engine.transformers.", "engine.transformers.")


def _named(plans: Mapping[str, Plan]) -> Iterator[Reason]:
    """Why models do not run for sure, each with its name."""
    for name, plan in plans.items():
        if plan.verdict != "fits":
            for reason in plan.reasons:
                suggestion = f"{name}: {reason.suggestion}" if reason.suggestion else ""
                yield Reason(reason.code, f"{name}: {reason.message}", suggestion)


def _no_common_image(plans: Mapping[str, Plan]) -> Reason:
    needed = [
        f"{name} ({plan.gpu.name if plan.gpu else 'CPUs'}) {plan.deployment.runtime.image or 'an image of its own'}"
        for name, plan in plans.items()
        if plan.deployment
    ]
    return Reason(
        "no-common-image",
        f"all models of a service run in one image: {' and '.join(needed)}",
        "spec.engine.image with an image for all of them, or a service for each",
    )


def _sum(costs: Iterable[Cost | UnknownCost | None]) -> Cost | UnknownCost | None:
    """What all models cost, as far as they run on machines that have a price at all."""
    found = [cost for cost in costs if cost is not None]
    unknown = next((cost for cost in found if isinstance(cost, UnknownCost)), None)
    if unknown is not None or not found:
        return unknown
    known = [cost for cost in found if isinstance(cost, Cost)]
    return Cost(
        source=known[0].source,
        per_gpu_hour={},
        per_hour=_added(cost.per_hour for cost in known),
        per_hour_at_max_replicas=_added(cost.per_hour_at_max_replicas for cost in known),
    )


def _added(bands: Iterable[Band]) -> Band:
    found = list(bands)
    low, typical, high = (sum(getattr(band, name) for band in found) for name in ("low", "typical", "high"))
    return Band(low, typical, high)
