"""A service in a cluster as the target of a load test, from this machine or from a Job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.forward.listener import listen_on_loopback
from rayllm_ctl.cluster.ray.bench_sample import RayServiceLook, ray_cluster_look
from rayllm_ctl.cluster.ray.model import live_model, own_vllm
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.kinds.loadtest import forward_rights, job_rights
from rayllm_ctl.loadtest.settings import API, Settings, Target
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.workflows.access.chat import Endpoint, require_key
from rayllm_ctl.workflows.bench.job import measure_there, place_of
from rayllm_ctl.workflows.bench.predict import Seen, planned_of
from rayllm_ctl.workflows.bench.watch import LoadWatch, LookAt

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def seen(cluster: Cluster, address: Endpoint, models: tuple[str, ...]) -> Seen:
    """Reads the state of the service under load, and its plan."""
    if address.kind == RAY_SERVICE.name:
        look: LookAt = RayServiceLook(cluster, address.name, address.namespace, models)
    else:
        look = ray_cluster_look(cluster, address.name, address.namespace)
    try:
        stored = cluster.get(address.kind, address.name, address.namespace)
    except UserError as error:
        return Seen(look, error.message)
    spec = cluster_spec(stored)
    versions = {"vllm": own_vllm(stored), "ray": spec.get("rayVersion")}
    if len(set(models)) > 1:
        return Seen(look, "the load is for several models", versions)
    return Seen(look, planned_of(live_model(stored, models[0])), versions)


@contextmanager
def forward_service(
    cluster: Cluster, address: Endpoint, models: tuple[str, ...], api: API, keys: tuple[str, ...]
) -> Iterator[Target]:
    """The service at a port of this machine, while the block runs. Raises UserError if it requires a key or no pod is
    ready."""
    require_key(address, keys[0] if keys else None)
    with (
        explained(cluster, address.namespace, forward_rights(address.kind)),
        listen_on_loopback(cluster, address.namespace, address.service) as port,
    ):
        yield Target(f"http://127.0.0.1:{port}/v1", models, keys, api)


def in_cluster(
    cluster: Cluster, address: Endpoint, key: SecretKey | None, watch: LoadWatch
) -> Callable[[Settings], list[dict[str, Any]]]:
    """The runner that sends load from a Job next to the service. Raises UsageError if it requires a key."""
    if address.key_required and key is None:
        raise UsageError(
            f"service {address.namespace}/{address.name} requires an API key, which the load test reads from a Secret",
            hint=("--api-key-secret NAME/KEY", "--local --api-key-file FILE    # or RAYLLM_API_KEY"),
        )
    rights = job_rights(address.kind)
    with explained(cluster, address.namespace, rights):
        place = place_of(cluster, address.name, address.namespace, address.kind)

    def run(settings: Settings) -> list[dict[str, Any]]:
        with explained(cluster, address.namespace, rights):
            return measure_there(place, settings, key, watch)

    return run
