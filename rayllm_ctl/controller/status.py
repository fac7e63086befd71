"""The status of an LLMService, from a decision and what it rests on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.controller.conditions import ConditionType, StatusCondition, as_conditions, make_condition
from rayllm_ctl.controller.decide import Decision, Facts
from rayllm_ctl.controller.declared import SpecProblem
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import SERVICE
from rayllm_ctl.model.observed.health import Health, Object, State
from rayllm_ctl.model.observed.model_downloads import format_figures
from rayllm_ctl.model.spec.several_models import each_model
from rayllm_ctl.serveconfig.routes import routes_of
from rayllm_ctl.workflows.access.chat import endpoint_url

_CONSENT = "NeedsConsent"
_DOWNLOADING = "Downloading"
_MOVING = frozenset({State.PROGRESSING, State.DELETING})
"""States that end by themselves; of a service that serves, workers that are still to go."""

_PHASES = {
    "invalid": "InvalidSpec",
    "planned": "PlanOnly",
    "foreign": "NotAdopted",
    "consent": _CONSENT,
    "downloading": _DOWNLOADING,
    "applying": "Applying",
    "surging": "Surge",
    "applied": "Applied",
}


def make_status(facts: Facts, decision: Decision, now: str, failure: SpecProblem | None = None) -> dict[str, Any]:
    """The status to be stored. failure: why a step of the decision could not be made. now: RFC 3339."""
    declared = facts.declared
    old: Mapping[str, Any] = declared.item.get("status") or {}
    plan = _plan(facts, old)
    found = [
        _planned(facts, plan),
        _applied(facts, decision, failure),
        *_parts(facts, decision),
        _upgrading(facts, decision),
        _ready(facts, decision),
    ]
    stalled = _stalled(facts, decision, failure)
    found += [
        _reconciling(facts, decision, stalled is not None),
        stalled or make_condition("Stalled", False, "AsExpected"),
    ]
    health = facts.health
    running, wanted = (health.replicas_running, health.replicas_wanted) if health else (0, 0)
    status: dict[str, Any] = {
        "observedGeneration": declared.generation,
        "conditions": as_conditions(found, old.get("conditions") or (), declared.generation, now),
        "replicas": wanted,
        "readyReplicas": running,
        "replicasText": f"{running}/{wanted}",
        "selector": f"{SERVICE}={declared.name},{kuberay.NODE_TYPE}=worker",
    }
    if plan is not None:
        status["plan"] = plan
    models = [one.model.id for one in each_model(declared.service).values()] if declared.service else old.get("models")
    if models:
        status["models"] = list(models)
    if facts.committed is not None:
        status["revision"] = facts.committed.number + (1 if decision.commit else 0)
    elif decision.commit:
        status["revision"] = 1
    url = _url(facts.workload)
    if url:
        status["url"] = url
    return status


def _plan(facts: Facts, old: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The plan of the newest spec; that of the revision where nothing is proposed."""
    if facts.proposal is not None:
        return facts.proposal.plan
    if facts.committed is not None and facts.committed.digest == facts.declared.digest:
        return facts.committed.plan
    return old.get("plan")


def _problem(facts: Facts) -> SpecProblem | None:
    proposed = facts.proposal.problem if facts.proposal is not None else None
    return facts.declared.problem or proposed


def _planned(facts: Facts, plan: Mapping[str, Any] | None) -> StatusCondition:
    problem = _problem(facts)
    if problem is not None and problem.reason != "FieldConflict":
        return make_condition("Planned", False, problem.reason, problem.message)
    if plan is None:
        return make_condition("Planned", None, "Unknown")
    return make_condition("Planned", True, str(plan["verdict"]), _plan_text(plan))


def _plan_text(plan: Mapping[str, Any]) -> str:
    parts = [f"{plan['gpus']} × {plan['gpu']}"] if "gpus" in plan and "gpu" in plan else []
    parts += [f"TP {plan['tensorParallel']}, PP {plan['pipelineParallel']}"] if "tensorParallel" in plan else []
    parts += [f"{plan['contextLength']:,} tokens"] if "contextLength" in plan else []
    parts += [f"{plan['usdPerHour']:.2f} USD per hour"] if "usdPerHour" in plan else []
    return "; ".join(parts)


def _applied(facts: Facts, decision: Decision, failure: SpecProblem | None) -> StatusCondition:
    if failure is not None:
        return make_condition("Applied", False, failure.reason, failure.message)
    if decision.phase == "foreign":
        return make_condition("Applied", False, "NotAdopted", facts.foreign)
    problem = _problem(facts)
    if decision.phase == "invalid" and problem is not None:
        return make_condition("Applied", False, problem.reason, "the spec of this generation is not applied")
    if decision.phase == "consent":
        return make_condition("Applied", False, _CONSENT, "the spec of this generation is not applied yet")
    if decision.phase == "planned":
        return make_condition("Applied", False, "PlanOnly", "spec.planOnly is true")
    number = facts.committed.number if facts.committed is not None else 0
    revision = f"revision {number + 1 if decision.commit else number}"
    if decision.phase == "downloading":
        text = f"{revision} is applied once its models are downloaded; no pod with a GPU waits for them"
        return make_condition("Applied", False, _DOWNLOADING, text)
    return make_condition("Applied", True, "Applied", revision)


def _parts(facts: Facts, decision: Decision) -> list[StatusCondition]:
    """Of the Ray cluster, the models, and the gateway if there is one."""
    health, workload = facts.health, facts.workload
    gateway = facts.declared.service is not None and facts.declared.service.gateway is not None
    types: list[ConditionType] = ["ClusterReady", "ModelsReady"]
    if gateway:
        types.append("GatewayReady")
    if health is None or workload is None:
        reason = _PHASES[decision.phase]
        return [make_condition(one, False, reason, "nothing runs") for one in types]
    reason, message = _why(health)
    if health.state is State.READY:
        return [make_condition(one, True, "Ready") for one in types]
    holds: dict[ConditionType, bool | None] = {
        "ClusterReady": _head_is_ready(facts),
        "ModelsReady": health.replicas_wanted > 0 and health.replicas_running >= health.replicas_wanted,
        "GatewayReady": health.endpoints > 0,
    }
    if health.state is State.UNKNOWN:
        holds = dict.fromkeys(types)
    return [
        make_condition(one, holds[one], "Ready" if holds[one] else reason, "" if holds[one] else message)
        for one in types
    ]


def _head_is_ready(facts: Facts) -> bool:
    clusters = [item for (kind, _), item in facts.stored.items() if kind == kuberay.RAY_CLUSTER]
    return any(
        one.get("type") == "HeadPodReady" and one.get("status") == "True"
        for item in clusters
        for one in (item.get("status") or {}).get("conditions") or ()
    )


def _upgrading(facts: Facts, decision: Decision) -> StatusCondition:
    proposal = facts.proposal
    if decision.phase == "consent" and proposal is not None:
        accept = f'rayllm.io/accept: "{facts.declared.generation}"'
        text = "\n".join(
            [*proposal.risks, f"nothing was applied; to accept that, annotate the LLMService with {accept}"]
        )
        return make_condition("Upgrading", False, _CONSENT, text)
    if decision.phase == "downloading" and facts.workload is not None and not kuberay.is_suspended(facts.workload):
        return make_condition("Upgrading", True, _DOWNLOADING, "the revision before answers until the models are there")
    if decision.phase == "surging":
        return make_condition("Upgrading", True, "Surge", "another replica answers while replicas are replaced")
    clusters = WORKLOADS[str(facts.workload["kind"])].clusters_of(facts.workload) if facts.workload else ()
    if len(clusters) > 1:
        return make_condition(
            "Upgrading", True, "NewCluster", f"RayCluster {clusters[-1]} takes over from {clusters[0]}"
        )
    notes = "\n".join(proposal.notes) if proposal is not None and decision.phase == "applying" else ""
    if decision.phase == "applying" and facts.workload is not None and notes:
        return make_condition("Upgrading", True, "Applying", notes)
    return make_condition("Upgrading", False, "UpToDate")


def _ready(facts: Facts, decision: Decision) -> StatusCondition:
    health = facts.health
    if health is None:
        problem = _problem(facts)
        if decision.phase == "foreign":
            return make_condition("Ready", False, "NotAdopted", facts.foreign)
        if problem is not None:
            return make_condition("Ready", False, problem.reason, problem.message)
        if facts.download is not None:
            return make_condition("Ready", False, *_why_not_downloaded(facts.download))
        return make_condition("Ready", False, _PHASES[decision.phase], "nothing runs yet")
    reason, message = _why(health)
    changed = decision.phase != "downloading" and (decision.commit or (decision.apply and decision.finish))
    if _serves(health) and changed:
        return make_condition("Ready", False, "Progressing", "the change has just been applied")
    return make_condition("Ready", None if health.state is State.UNKNOWN else _serves(health), reason, message)


def _serves(health: Health) -> bool:
    """Whether all that is wanted answers: workers that are still to go do not count."""
    if health.state is State.READY:
        return True
    enough = 0 < health.replicas_wanted <= health.replicas_running and health.endpoints > 0
    return health.state is State.PROGRESSING and enough and not health.causes


def _reconciling(facts: Facts, decision: Decision, stalled: bool) -> StatusCondition:
    if stalled:
        return make_condition("Reconciling", False, "Stalled")
    health = facts.health
    if decision.phase == "downloading":
        return make_condition("Reconciling", True, _DOWNLOADING, facts.download.message if facts.download else "")
    moving = decision.phase in ("applying", "surging") or (health is not None and health.state in _MOVING)
    if not moving:
        return make_condition("Reconciling", False, "AsExpected")
    return make_condition("Reconciling", True, _PHASES[decision.phase] if health is None else _why(health)[0])


def _stalled(facts: Facts, decision: Decision, failure: SpecProblem | None) -> StatusCondition | None:
    """What only a human can resolve."""
    problem = _problem(facts)
    if failure is not None:
        return make_condition("Stalled", True, failure.reason, failure.message)
    if problem is not None:
        return make_condition("Stalled", True, problem.reason, problem.message)
    if decision.phase == "foreign":
        return make_condition("Stalled", True, "NotAdopted", facts.foreign)
    if decision.phase == "consent" and facts.proposal is not None:
        return make_condition("Stalled", True, _CONSENT, "\n".join(facts.proposal.risks))
    if facts.download is not None and any(one.terminal for one in facts.download.causes):
        return make_condition("Stalled", True, *_why_not_downloaded(facts.download))
    if facts.health is not None and any(one.terminal for one in facts.health.causes):
        return make_condition("Stalled", True, *_why(facts.health))
    return None


def _why_not_downloaded(download: Health) -> tuple[str, str]:
    """Why the models are not there: the code of what keeps the download from proceeding, or how far it is."""
    if download.state is not State.PROGRESSING:
        return _why(download, hints=4)  # the last ones say how it is started again
    figures = [f"job/{one.job}: {format_figures(one) or one.state}" for one in download.downloads or ()]
    remarks = [one.message for one in download.causes if one.code != "StillStarting"]
    return _DOWNLOADING, "\n".join([download.message, *figures, *remarks])


def _why(health: Health, hints: int = 2) -> tuple[str, str]:
    """The code of the root cause, or the state, and its evidence."""
    if not health.causes:
        return health.state.value, health.message
    first = health.causes[0]
    lines = [f"{first.object}: {first.message}", *first.evidence[:1], *(f"→ {hint}" for hint in first.hint[:hints])]
    return first.code, "\n".join(lines)


def _url(workload: Object | None) -> str:
    if workload is None:
        return ""
    metadata = workload["metadata"]
    kind = str(workload["kind"])
    routes = routes_of(workload) if kind == "RayService" else None
    return endpoint_url(kind, str(metadata["name"]), str(metadata["namespace"]), routes)
