"""Compile caches that are mounted and do not help: never hit, or not writable.

Texts of vLLM 0.29 (vllm/compilation/decorators.py, backends.py).
"""

from __future__ import annotations

import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.rules.modelstorage.hints import mounted_claims
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.kube.model_downloads import CACHES_PATH
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_COMPILED = re.compile(r"torch\.compile took (?P<seconds>[\d.]+) s in total")
_LOADED = re.compile(r"Directly load (?:AOT compilation from path|the compiled graph)")
_NOT_WRITABLE = re.compile(rf"[^\n]*(?:Permission denied|Read-only file system)[^\n]*?{CACHES_PATH}[^\n]*")


def compile_cache_unused(context: ServiceContext) -> Finding | None:
    """A remark on a cache that costs a volume and saves no time, as far as logs show it."""
    pods = [(pod, claim) for pod in context.pods if (claim := dict(mounted_claims(pod)).get(CACHES_PATH))]
    for pod, claim in pods:
        refused = next((found[0] for log in _logs(context, pod) if (found := _NOT_WRITABLE.search(log))), "")
        if refused:
            return _remark(
                pod,
                f"the compile cache in claim {claim} is not writable for {pod.subject}: every start compiles again",
                f"log of {pod.name}: {one_line(refused, 400)}",
                Hint(f"kubectl get pvc {claim} -n {context.namespace} -o jsonpath='{{.spec.accessModes}}'"),
                Hint(remark="spec.storage.caches.create.accessModes: [ReadWriteMany], or the pods' fsGroup as owner"),
            )
    for pod, claim in pods:
        misses = [found for log in _logs(context, pod) if (found := _missed(log)) is not None]
        before = _compiled_before(pod, [one for one, _ in pods]) if misses else ""
        if len(misses) > 1:
            before = f"an earlier start in {pod.subject}"
        if misses and before:
            return _remark(
                pod,
                f"{pod.subject} compiled for {misses[-1]['seconds']} s although claim {claim} has the compile cache, "
                f"and {before} had compiled the same before: the cache was not hit",
                f"log of {pod.name}: {misses[-1][0]}",
                Hint(f"rayllm-ctl logs {context.name} -n {context.namespace} --engine --grep torch_compile_cache"),
                Hint(f"kubectl get pod {pod.name} -n {context.namespace} -o yaml", "VLLM_* that differ between pods"),
            )
    return None


def _missed(log: str) -> re.Match[str] | None:
    return None if _LOADED.search(log) else _COMPILED.search(log)


def _compiled_before(pod: Pod, others: list[Pod]) -> str:
    """A pod of the same group that was ready before this one started, so that it had filled the cache."""
    started = pod.main.started if pod.main is not None else None
    for other in others:
        ready = fields.when(other.condition("Ready"), "lastTransitionTime") if other.ready else None
        same = other.group == pod.group and other.cluster == pod.cluster and other.name != pod.name
        if same and ready is not None and started is not None and ready < started:
            return f"{other.subject}, ready since {ready:%H:%M:%S},"
    return ""


def _logs(context: ServiceContext, pod: Pod) -> list[str]:
    return context.logs_of([pod.name], "")


def _remark(pod: Pod, message: str, evidence: str, *hints: Hint) -> Finding:
    return finding(
        "CompileCacheUnused",
        pod.subject,
        message,
        headline="the compile cache is not used",
        evidence=(evidence, f"{pod.subject}: a claim is mounted at {CACHES_PATH}"),
        hint=hints,
        since=pod.main.started if pod.main is not None else pod.created,
        key=("compile cache",),
    )
