"""What a plan says of the objects that serve it: versions, the Ray Serve application, the Ray cluster.

Manifests are laid out from these fields without a further decision. Delays, periods and time limits are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.exposure import Exposure
from rayllm_ctl.model.rayoptions import RayOptions, Upgrade
from rayllm_ctl.model.service import Toleration, Volume
from rayllm_ctl.model.specform import SecretKey


@dataclass(frozen=True)
class Runtime:
    """The software in the pods. `image` None: no known image contains it, and one has to be named before rendering.

    image_note: why there is no image, or that its tag was not seen in the registry. assumed: versions that neither the
    user nor the image states ("vLLM 0.29.0").
    """

    ray_version: str
    vllm_version: str
    image: str | None
    image_note: str = ""
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Autoscaling:
    """Replica bounds of one Serve deployment, and how Ray Serve moves between them."""

    min_replicas: int
    max_replicas: int
    target_ongoing_requests: int
    look_back_period: float
    upscale_delay: float
    downscale_delay: float


@dataclass(frozen=True)
class ServeApplication:
    """The Ray Serve LLM application. `deployment` is the name that Ray gives to the model's deployment.

    accelerator_type: Ray's name of the GPU; None where it has none. placement_strategy and bundle_resource: how Ray
    places the engine's processes, and what each of them reserves (GPU or CPU). engine_cpus, ingress_cpus: Ray's logical
    CPUs of a replica beside its processes, and of an ingress replica.
    """

    model_id: str
    model_source: str
    revision: str | None
    accelerator_type: str | None
    placement_strategy: str
    bundle_resource: str
    engine_cpus: float
    ingress_cpus: float
    deployment: str
    max_ongoing_requests: int
    autoscaling: Autoscaling
    ingress_autoscaling: Autoscaling
    health_check_period: int
    health_check_timeout: int
    graceful_shutdown_timeout: int


@dataclass(frozen=True)
class EnvVar:
    """A variable of the containers: a value, or a key of a Secret."""

    name: str
    value: str | None = None
    secret: SecretKey | None = None


@dataclass(frozen=True)
class PodPlacement:
    """Where pods may run. node_labels: alternatives, any of which marks a suitable node."""

    node_selector: Mapping[str, str]
    node_labels: Mapping[str, tuple[str, ...]]
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True)
class Probe:
    """The readiness probe of workers, which asks the Serve proxy of their node."""

    initial_delay: int
    period: int
    timeout: int
    failure_threshold: int


@dataclass(frozen=True)
class WorkerGroup:
    """The workers. cpus: logical CPUs that each offers to Ray. extended_resources: GPUs by the name of their resource.

    ray_resources: the custom resources that Ray's autoscaler expects of a worker, as JSON; None where there are none.
    """

    name: str
    min_workers: int
    max_workers: int
    cpus: int
    extended_resources: Mapping[str, int]
    ray_resources: str | None
    placement: PodPlacement
    readiness: Probe


@dataclass(frozen=True)
class Autoscaler:
    """Ray's autoscaler, a sidecar of the head: quantities, and how long a worker without a replica is kept."""

    cpu: str
    memory: str
    memory_limit: str
    idle_timeout: int


@dataclass(frozen=True)
class Backend:
    """The Service and the port at which the service answers: what an Ingress or an HTTPRoute forwards to."""

    service: str
    port: int


@dataclass(frozen=True)
class NetworkRules:
    """Who may connect to the pods, as the peers of a NetworkPolicy: `clients` to the OpenAI port, `scrapers` to the
    metrics ports. The pods of the service and the operator may in any case."""

    operator_namespace: str
    clients: tuple[Mapping[str, Any], ...]
    scrapers: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Scraping:
    """A PodMonitor or a ServiceMonitor. `interval` as Prometheus writes it; None: Prometheus' own."""

    labels: Mapping[str, str]
    interval: str | None


@dataclass(frozen=True)
class Surroundings:
    """What stands next to the object that runs the service. None, or no part of `exposure`: there is no such object.

    route_timeout: of a request through the HTTPRoute, as the Gateway API writes it; None: the Gateway's own.
    min_available: of the PodDisruptionBudget over the workers.
    """

    exposure: Exposure
    backend: Backend
    route_timeout: str | None
    network: NetworkRules | None
    min_available: int | None
    pod_monitor: Scraping | None
    service_monitor: Scraping | None


@dataclass(frozen=True)
class Deployment:
    """All that the manifests say beyond the sections of the plan (parallelism, engine, pods)."""

    name: str
    namespace: str | None
    runtime: Runtime
    serve: ServeApplication
    head_placement: PodPlacement
    worker: WorkerGroup
    autoscaler: Autoscaler
    ray: RayOptions
    upgrade: Upgrade
    env: tuple[EnvVar, ...]
    volumes: tuple[Volume, ...]
    around: Surroundings
