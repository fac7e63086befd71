"""Wait until the controller has done what an LLMService asks for, as its status tells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from threading import Event as Stop
from typing import Any

from rayllm_ctl.cluster.api.errors import NotFoundError, ServerFailingError, UnreachableError
from rayllm_ctl.errors import OutageError, UserError, WaitTimeoutError
from rayllm_ctl.model.events import Noted, Observed, Ready
from rayllm_ctl.model.kube.labels import ACCEPTED, CONTROLLER
from rayllm_ctl.model.kube.owned import DECLARING
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.workflows.observe.wait import OLD_EVIDENCE_GRACE, OUTAGE, wait_ready
from rayllm_ctl.workflows.rollout.llmservice.declaration import Declaration

_LOOK_SECONDS = 1.0

_CONSENT = "NeedsConsent"
_PLAN_ONLY = "PlanOnly"

_HINT = "→ "
"""With which a line of a message begins that says what to type."""

Conditions = Mapping[str, Mapping[str, Any]]
"""The conditions of a status by their types."""


def wait_declared(
    declaration: Declaration, stored: Mapping[str, Any], limit: float, *, consents: bool = False,
    stop: Stop | None = None,
) -> Iterator[Noted | Observed | Ready]:  # fmt: skip
    """Until the service of an LLMService, as it is `stored` now, is Ready: a line for each condition that changes.

    consents: the command can accept what a change costs. Raises UserError as soon as only a human can resolve what
    keeps it from that, and WaitTimeoutError after `limit` seconds. After `stop` it ends without a Ready.
    """
    begin = time.monotonic()
    generation = int(stored["metadata"].get("generation") or 0)
    item: Mapping[str, Any] = declaration.item
    out_since: float | None = None
    stop = stop or Stop()
    while not stop.is_set():
        elapsed = time.monotonic() - begin
        before = item
        try:
            item = _read(declaration)
            out_since = None
        except (UnreachableError, ServerFailingError) as error:
            if out_since is None:
                out_since = elapsed
                yield Noted(f"{error.message}; retrying")
            elif elapsed - out_since > OUTAGE:
                raise
        found = _conditions(item)
        yield from _changes(_conditions(before), found)
        if out_since is None and _observed(item) >= generation:
            # While a spec waits or is rejected, the service may well be Ready as it was.
            stalled, upgrading = (_is(found, one) for one in ("Stalled", "Upgrading"))
            if _is(found, "Ready") and _is(found, "Applied") and not stalled and not upgrading:
                yield from _confirmed(declaration, max(limit - elapsed, 1.0), stop)
                return
            if found.get("Applied", {}).get("reason") == _PLAN_ONLY:
                yield Noted(f"{declaration.label} is planned only: spec.planOnly is true")
                return
            _stop_if_stalled(declaration, generation, found, elapsed, consents)
        if elapsed >= limit:
            raise _timed_out(declaration, generation, item, limit)
        pause(min(_LOOK_SECONDS, limit - elapsed), stop)


def pause(seconds: float, stop: Stop) -> None:
    """Until the next look."""
    stop.wait(max(seconds, 0.05))


def _read(declaration: Declaration) -> dict[str, Any]:
    try:
        item = declaration.cluster.get(DECLARING, declaration.name, declaration.namespace)
    except NotFoundError:
        item = None
    if item is None or item["metadata"]["uid"] != declaration.item["metadata"]["uid"]:
        raise UserError(f"{declaration.label} was deleted while this was waiting for it")
    return item


def _confirmed(declaration: Declaration, limit: float, stop: Stop) -> Iterator[Noted | Observed | Ready]:
    """What the service itself says, as for one that no LLMService declares."""
    stored = declaration.cluster.get(declaration.kind.name, declaration.name, declaration.namespace)
    yield from wait_ready(declaration.cluster, declaration.kind, stored, limit, stop=stop)


def _observed(item: Mapping[str, Any]) -> int:
    return int((item.get("status") or {}).get("observedGeneration") or 0)


def _conditions(item: Mapping[str, Any]) -> Conditions:
    return {str(one["type"]): one for one in (item.get("status") or {}).get("conditions") or ()}


def _is(found: Conditions, type_: str) -> bool:
    return found.get(type_, {}).get("status") == "True"


def _changes(before: Conditions, found: Conditions) -> Iterator[Noted]:
    for type_, one in found.items():
        old = before.get(type_, {})
        if (old.get("status"), old.get("reason")) == (one.get("status"), one.get("reason")):
            continue
        first = str(one.get("message") or "").partition("\n")[0]
        yield Noted(f"{type_} {one.get('status')}: {one.get('reason')}" + (f": {first}" if first else ""))


def _stop_if_stalled(
    declaration: Declaration, generation: int, found: Conditions, elapsed: float, consents: bool
) -> None:
    """Raise UserError if only a human can resolve what keeps the service from being Ready."""
    stalled = found.get("Stalled", {})
    reason = str(stalled.get("reason"))
    if stalled.get("status") != "True":
        return
    if _is(found, "Applied") and elapsed < OLD_EVIDENCE_GRACE:
        return  # it may be the cause of what ran before
    lines = str(stalled.get("message") or "").splitlines()
    text = [line for line in lines if not line.startswith(_HINT)]
    hints = [line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)]
    name, namespace = declaration.name, declaration.namespace
    if reason != _CONSENT:
        status = f"rayllm-ctl status {name} -n {namespace}"
        raise UserError("\n".join([f"{declaration.label}: {reason}", *text]), hint=hints or status)
    message = "\n".join([f"{declaration.label} waits for consent; nothing was applied", *text])
    if consents:
        raise OutageError(message, hint=hints)
    accept = f"kubectl annotate llmservice {name} -n {namespace} --overwrite {ACCEPTED}={generation}"
    raise UserError(message, hint=(*hints, f"{accept}    # accepts it"))


def _timed_out(declaration: Declaration, generation: int, item: Mapping[str, Any], limit: float) -> WaitTimeoutError:
    name, namespace = declaration.name, declaration.namespace
    look = (f"rayllm-ctl status {name} -n {namespace}", f"kubectl describe llmservice {name} -n {namespace}")
    after = format_duration(limit)
    if _observed(item) < generation:
        return WaitTimeoutError(
            f"{declaration.label}: no controller has looked at generation {generation} after {after}",
            hint=(f"kubectl get leases -A --field-selector metadata.name={CONTROLLER}    # who reconciles", *look),
        )
    ready = _conditions(item).get("Ready", {})
    return WaitTimeoutError(
        f"{name} is not ready after {after}; it is {ready.get('reason', 'Unknown')}: {ready.get('message', '')}",
        hint=look,
    )
