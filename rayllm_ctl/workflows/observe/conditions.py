"""Wait until a condition holds for an existing service: ready, healthy, deleted, a number of replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.inventory import inventory
from rayllm_ctl.cluster.lookup.services import not_found
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Noted, Observed
from rayllm_ctl.model.kube.kuberay import ORIGIN_NAME, RAY_CLUSTER
from rayllm_ctl.model.observed.external import Reach, format_external
from rayllm_ctl.model.observed.health import Health, State
from rayllm_ctl.workflows.observe.wait import Look, looks_at, raise_if_terminal, stop_if_suspended, timed_out
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Condition:
    """`holds`: tests one observation. `met` and `unmet` follow the name of the service in messages.

    replicas: the wanted number, for the condition on replicas.
    """

    holds: Callable[[Health], bool]
    met: str
    unmet: str
    replicas: int | None = None


@dataclass(frozen=True)
class Met:
    """The condition holds, `elapsed` seconds after the wait began."""

    health: Health
    elapsed: float


def is_ready(health: Health) -> bool:
    """It serves and nothing is in progress: the condition that `deploy` waits for."""
    return health.state is State.READY


def is_healthy(health: Health) -> bool:
    """Ready, Serve itself reports that all wanted replicas run, and every external address can be used."""
    return (
        is_ready(health)
        and health.replicas_verified
        and health.replicas_running >= health.replicas_wanted
        and all(address.state is Reach.READY for address in health.external)
    )


READY = Condition(is_ready, "is ready", "is not ready")
HEALTHY = Condition(is_healthy, "is healthy", "is not healthy")
DELETED = Condition(lambda health: health.state is State.NOT_FOUND, "is deleted", "is not deleted")


def replicas(count: int) -> Condition:
    """At least `count` replicas serve, as reported by Serve; for 0: it is scaled to zero."""

    def holds(health: Health) -> bool:
        if count == 0:
            return is_ready(health) and _verified(health) == 0
        return health.endpoints > 0 and _verified(health) >= count

    what = f"{count:,} replica{'' if count == 1 else 's'}"
    return Condition(holds, f"has {what}", f"does not have {what}", count)


def _verified(health: Health) -> int:
    """Running replicas; -1 if only worker pods could be counted."""
    return health.replicas_running if health.replicas_verified else -1


def wait_for(
    cluster: Cluster, name: str, namespace: str, condition: Condition, timeout: float
) -> Iterator[Observed | Noted | Met]:
    """Observe service `name` until `condition` holds; the last event is Met. timeout: seconds.

    Raises UserError at once when waiting cannot help (a terminal cause, more replicas than it may have, it is being
    deleted), NotFoundError when there is no such service, WaitTimeoutError with the last state.
    """
    last: Health | None = None
    with explained(cluster, namespace, RAY_SERVICE.rights_for("follow")):
        for seen in looks_at(cluster, None, name, namespace, timeout, None):
            if isinstance(seen, Noted):
                yield seen
                continue
            if condition is DELETED:
                left, unknown = _remains(cluster, name, namespace, seen)
                if left:
                    last = seen.health
                    yield Observed(last, seen.elapsed)
                    continue
                if unknown:
                    yield Noted(f"{unknown}: whether rayllm-ctl applied any of these for {name} is unknown")
            else:
                _must_exist(cluster, name, namespace, seen.health, known=last is not None)
            last = seen.health
            yield Observed(last, seen.elapsed)
            if condition.holds(last):
                yield Met(last, seen.elapsed)
                return
            _stop_if_impossible(name, namespace, condition, last, seen.elapsed)
            if condition is not DELETED:
                stop_if_suspended(name, namespace, seen.snapshot, last)
    raise timed_out(f"{name} {condition.unmet}", name, namespace, last, timeout, *_lacking(last))


def _lacking(health: Health | None) -> Iterator[str]:
    """Reasons besides the causes: objects that could not be read, and addresses that cannot be used."""
    if health is None:
        return
    yield from health.notes
    yield from (format_external(one) for one in health.external if one.state is not Reach.READY)


def _remains(cluster: Cluster, name: str, namespace: str, seen: Look) -> tuple[bool, str]:
    """Whether anything of a deleted service is left: its object, pods, RayClusters, or objects applied with it; and a
    note on kinds that could not be read, empty if all were.
    """
    if seen.health.state is not State.NOT_FOUND:
        return True, ""
    labels = (item["metadata"].get("labels") or {} for item in seen.snapshot.of_kind(RAY_CLUSTER))
    if any(one.get(ORIGIN_NAME) == name for one in labels):
        return True, ""
    found = inventory(cluster, name, namespace)
    return bool(found.objects), found.unknown(namespace)


def _must_exist(cluster: Cluster, name: str, namespace: str, health: Health, *, known: bool) -> None:
    if health.state is State.NOT_FOUND and not known:
        raise not_found(cluster, find_service(cluster, name, namespace)[0], name, namespace)
    if health.state in (State.NOT_FOUND, State.DELETING):
        raise UserError(
            f"{name} was deleted" + (" while wait was waiting for it" if known else ""),
            hint=f"rayllm-ctl status {name} -n {namespace}",
        )


def _stop_if_impossible(name: str, namespace: str, condition: Condition, health: Health, elapsed: float) -> None:
    if condition is DELETED:
        return
    raise_if_terminal(name, namespace, health, elapsed)
    # Something in progress may be a change of the bounds.
    settled = health.state is State.READY and health.replicas_verified
    if condition.replicas is not None and settled and condition.replicas > health.replicas_max:
        raise UserError(
            f"{name} {condition.unmet}: it may have {health.replicas_max:,} at most (spec.replicas.max)",
            hint=(
                f"rayllm-ctl scale {name} -n {namespace} --max-replicas {condition.replicas}",
                f"rayllm-ctl status {name} -n {namespace}",
            ),
        )
