"""Where clients outside the cluster reach a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.external import ExternalAddress, Reach
from rayllm_ctl.workflows.chat import Endpoint

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class External:
    """The addresses of a service outside the cluster. notes: what of them could not be read, and why."""

    external: tuple[ExternalAddress, ...] = ()
    notes: tuple[str, ...] = ()


def external(cluster: Cluster, where: Endpoint) -> External:
    """What exposes the service, as the cluster's objects say now."""
    from rayllm_ctl.cluster.exposure import collect_exposure
    from rayllm_ctl.cluster.failures import ForbiddenError

    kind = WORKLOADS[where.kind]
    try:
        workload = cluster.get(kind.name, where.name, where.namespace)
    except ForbiddenError as error:
        return External(notes=(f"external addresses could not be read: not permitted to {error.right}",))
    snapshot = collect_exposure(cluster, kind, workload)
    return External(kind.external(snapshot, where.name, where.namespace), snapshot.notes)


def external_url(where: Endpoint, found: External) -> str:
    """The first URL that can be used. Raises UserError, with the reasons, where there is none."""
    urls = [url for address in found.external if address.state is Reach.READY for url in address.urls]
    if urls:
        return urls[0]
    shown = f"service {where.namespace}/{where.name}"
    reasons = [f"  {one.object}: {one.state}: {one.message}" for one in found.external]
    reasons += [f"  {note}" for note in found.notes]
    if reasons:
        raise UserError(
            "\n".join([f"{shown} has no external address that can be used:", *reasons]),
            hint=f"rayllm-ctl status {where.name} -n {where.namespace}",
        )
    raise UserError(
        f"{shown} is not exposed outside the cluster",
        hint=(
            "rayllm-ctl explain spec.exposure   (LoadBalancer, Ingress or HTTPRoute)",
            f"rayllm-ctl port-forward {where.name} -n {where.namespace}",
        ),
    )
