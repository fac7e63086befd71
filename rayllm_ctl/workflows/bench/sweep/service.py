"""The services of a sweep in the cluster: ownership and removal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.apply.inventory import inventory
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.cluster.preflight.preflight import preflight
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import WORKLOADS, workload
from rayllm_ctl.kinds.loadtest import sweep_rights
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.labels import SWEEP
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.workflows.bench.sweep.folder import Folder, Left
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout import secrets as gatewaysecrets
from rayllm_ctl.workflows.rollout.delete import delete

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

DELETE_SECONDS = 600.0
"""How long to wait until a service is gone: its GPUs have to be free for the next one."""


def require_cluster(cluster: Cluster, services: Sequence[Rendering], namespace: str, *, local: bool) -> None:
    """Raise UserError if the cluster rules all services out, or the user may not measure and remove them.

    Deploying asks for its own rights.
    """
    rights = Rights()
    for rendering in services:
        kind, _ = workload(rendering.manifests)
        rights |= sweep_rights(kind, (manifest["kind"] for manifest in rendering.manifests), local=local)
        if rendering.plan and rendering.plan.deployment and gatewaysecrets.makes_password(rendering.plan.deployment):
            rights |= Rights((Right("delete", "Secret"),))
    kind, _ = workload(services[0].manifests)
    preflight(cluster, kind.name, services[0].name, namespace, rights.needed)


def require_own(cluster: Cluster, name: str, namespace: str, sweep: str) -> None:
    """Raise UserError if an object of a service's name exists that the sweep of this id did not apply."""
    objects = list(inventory(cluster, name, namespace).objects)
    for kind in WORKLOADS.values():
        with suppress(ForbiddenError):  # a kind that the sweep does not use; the rights for its own kinds were checked
            objects += filter(None, [find(cluster, kind, name, namespace)])
    for stored in objects:
        if stored["metadata"].get("annotations", {}).get(SWEEP) == sweep:
            continue
        shown = f"{stored['kind'].lower()}/{stored['metadata']['name']}"
        raise UserError(
            f"{shown} exists in namespace {namespace} and was not created by this sweep, which needs the name",
            hint=(f"{delete_command(name, namespace)}    # if it is not needed", "--name NAME    # another name"),
        )


def place(cluster: Cluster, name: str, namespace: str) -> Left:
    """The location of a service of the sweep, for its folder."""
    address = urlsplit(cluster.server)
    return Left(name, namespace, urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2], query="")))


def require_left_here(cluster: Cluster, namespace: str, folder: Folder) -> None:
    """Raise UserError if an interrupted sweep may have left a service in another cluster or namespace."""
    left = folder.left()
    if left is None:
        return
    here = place(cluster, left.variant, namespace)
    if left != here:
        raise UserError(
            f"{left.variant} was left by an interrupted sweep in namespace {left.namespace} of {left.server}, and this "
            f"call is for namespace {here.namespace} of {here.server}",
            hint=(
                f"-n {left.namespace}, with the --context of {left.server}    # removes it, and continues there",
                f"rm {folder.left_file}    # if it is gone",
            ),
        )


def remove_service(cluster: Cluster, rendering: Rendering, namespace: str, sweep: str) -> Iterator[Applied | Noted]:
    """Delete a service of the sweep, if it is there, and wait until its pods are gone. UserError as `require_own`."""
    require_own(cluster, rendering.name, namespace, sweep)
    yield from delete(cluster, rendering.name, namespace, wait=True, timeout=DELETE_SECONDS, ignore_not_found=True)
    if rendering.plan and rendering.plan.deployment:
        yield from gatewaysecrets.delete_password(cluster, rendering.plan.deployment, namespace)


def delete_command(name: str, namespace: str) -> str:
    """The command to delete a service."""
    return f"rayllm-ctl delete {name} -n {namespace}"
