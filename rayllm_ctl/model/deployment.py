"""What a plan says of the objects that serve it: versions, the Ray Serve application, the Ray cluster.

Manifests are laid out from these fields without a further decision. Delays, periods and time limits are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.exposure import Ingress, ServiceType
from rayllm_ctl.model.operations import PodDisruptionBudget
from rayllm_ctl.model.patches import Patch
from rayllm_ctl.model.podoptions import EnvironmentSource, KeyOf, ObjectName, Pods
from rayllm_ctl.model.rayoptions import RayOptions, Upgrade
from rayllm_ctl.model.security import PodSecurity
from rayllm_ctl.model.serveoptions import ServeProxies
from rayllm_ctl.model.service import Toleration, Volume


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
    accelerator_kind: str
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
    """A variable of the containers: a value, a key of a Secret or a ConfigMap, or a field of the pod."""

    name: str
    value: str | None = None
    secret: KeyOf | None = None
    config_map: KeyOf | None = None
    field_path: str | None = None


@dataclass(frozen=True)
class PodPlacement:
    """Where pods may run. affinity: the user's, and that for the labels of the GPU's nodes, in one."""

    node_selector: Mapping[str, str]
    affinity: Mapping[str, Any]
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True)
class PodTemplate:
    """What the pods of the head or of a group of workers have beyond the sizes of their container.

    Raw parts have the form in which Kubernetes writes them. Kubernetes expands $(NAME) in the value of a variable from
    those before it, so their order counts.
    """

    placement: PodPlacement
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    service_account_name: str | None
    image_pull_secrets: tuple[ObjectName, ...]
    priority_class_name: str | None
    runtime_class_name: str | None
    topology_spread_constraints: tuple[Mapping[str, Any], ...]
    security_context: Mapping[str, Any]
    container_security_context: Mapping[str, Any]
    env: tuple[EnvVar, ...]
    env_from: tuple[EnvironmentSource, ...]


@dataclass(frozen=True)
class Probe:
    """The readiness probe of workers, an HTTP request to their own pod."""

    path: str
    port: int
    https: bool
    initial_delay: int
    period: int
    timeout: int
    failure_threshold: int


@dataclass(frozen=True)
class WorkerGroup:
    """A group of workers. cpus: logical CPUs that each offers to Ray. pod_cpu, pod_memory: quantities of its container.
    extended_resources: GPUs by the name of their resource. ray_labels: labels of its Ray nodes.

    ray_resources: the custom resources that Ray's autoscaler expects of a worker, as JSON; None where there are none.
    """

    name: str
    min_workers: int
    max_workers: int
    cpus: int
    pod_cpu: str
    pod_memory: str
    extended_resources: Mapping[str, int]
    ray_resources: str | None
    pod: PodTemplate
    readiness: Probe
    ray_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Autoscaler:
    """Ray's autoscaler, a sidecar of the head: quantities, and how long a worker without a replica is kept."""

    cpu: str
    memory: str
    memory_limit: str
    idle_timeout: int


@dataclass(frozen=True)
class Backend:
    """What an Ingress or an HTTPRoute forwards to."""

    service: Annotated[str, "Service at which the OpenAI API answers."]
    port: Annotated[int, "Its port, which is that of the pods as well."]


@dataclass(frozen=True)
class HTTPRoute:
    """An HTTPRoute that is attached to a Gateway."""

    name: Annotated[str, "Name of the Gateway."]
    namespace: Annotated[str | None, "Namespace of the Gateway; with null, that of the service."]
    section_name: Annotated[str | None, "Name of the listener; with null, all that admit the route."]
    hostnames: Annotated[tuple[str, ...], "Host names; if empty, those of the listener."]
    request_timeout: Annotated[str | None, "Longest duration of a request; 0s: no limit; null: the Gateway's own."]


@dataclass(frozen=True)
class Entrance:
    """How clients reach the service."""

    type: Annotated[ServiceType, "Type of KubeRay's Service."]
    annotations: Annotated[Mapping[str, str], "Annotations of KubeRay's Service."]
    source_ranges: Annotated[tuple[str, ...], "Addresses (CIDR) that the load balancer admits; if empty, all."]
    ingress: Annotated[Ingress | None, "An Ingress; null for none."]
    gateway: Annotated[HTTPRoute | None, "An HTTPRoute of the Gateway API; null for none."]


@dataclass(frozen=True)
class NetworkRules:
    """Who may connect to the pods, as the peers of a NetworkPolicy. The pods of the service may in any case."""

    operator_namespace: Annotated[str, "Namespace of the KubeRay operator."]
    clients: Annotated[tuple[Mapping[str, Any], ...], "Clients of the OpenAI port."]
    scrapers: Annotated[tuple[Mapping[str, Any], ...], "Clients of the metrics ports."]


@dataclass(frozen=True)
class Scraping:
    """A PodMonitor or a ServiceMonitor."""

    labels: Annotated[Mapping[str, str], "Labels by which Prometheus selects the monitor."]
    interval: Annotated[str | None, "Scrape interval; with null, that of Prometheus."]


@dataclass(frozen=True)
class Deployment:
    """All that the manifests say beyond the sections of the plan (parallelism, engine, pods).

    serve_options: what the Serve configuration says beside its applications.
    pod_options: what the user asks of the pods, for errors about raw parts of them.
    """

    name: str
    namespace: str | None
    runtime: Runtime
    serve: ServeApplication
    head: PodTemplate
    worker: WorkerGroup
    autoscaler: Autoscaler
    pod_options: Pods
    pod_security: PodSecurity
    ray: RayOptions
    upgrade: Upgrade
    volumes: tuple[Volume, ...]
    exposure: Entrance
    backend: Backend
    network: NetworkRules | None
    pod_disruption_budget: PodDisruptionBudget | None
    pod_monitor: Scraping | None
    service_monitor: Scraping | None
    proxies: ServeProxies
    serve_options: Mapping[str, Any]
    patches: tuple[Patch, ...]
