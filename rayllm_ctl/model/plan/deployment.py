"""The part of a plan for the objects: versions, the Ray Serve application, the Ray cluster.

Manifests are laid out from these fields without a further decision. Delays, periods and time limits are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.plan.surroundings import Backend, Entrance, NetworkRules, RedisServer, Scraping
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.patches import Patch
from rayllm_ctl.model.spec.pod_options import Pods
from rayllm_ctl.model.spec.ray_options import RayOptions, Upgrade
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.model.spec.service import Adapter, Mode, Volume
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class Runtime:
    """The software in the pods. `image` None: no known image contains it, and one has to be named before rendering.

    public: whether it is Ray's own image, of which it is known what it contains.
    image_note: why there is no image, or that its tag was not seen in the registry. assumed: versions that neither the
    user nor the image states ("vLLM 0.29.0").
    """

    ray_version: str
    vllm_version: str
    image: str | None
    image_note: str = ""
    assumed: tuple[str, ...] = ()
    public: bool = False


@dataclass(frozen=True)
class Autoscaling:
    """Replica bounds of one Serve deployment, and how Ray Serve moves between them. None: as Ray does by default."""

    min_replicas: Annotated[int, "Smallest number of replicas."]
    max_replicas: Annotated[int, "Largest number of replicas."]
    target_ongoing_requests: Annotated[int, "Requests per replica at which Serve aims."]
    look_back_period: Annotated[float, "Seconds over which requests are averaged."]
    upscale_delay: Annotated[float, "Seconds for which more replicas must be wanted before they are added."]
    downscale_delay: Annotated[float, "Seconds for which fewer replicas must be wanted before some are removed."]
    initial_replicas: Annotated[int | None, "Replicas at the start."]
    downscale_to_zero_delay: Annotated[float | None, "Seconds without a request before the last replica is removed."]
    metrics_interval: Annotated[float | None, "Seconds between two reports of a replica."]
    upscaling_factor: Annotated[float | None, "Factor on each increase."]
    downscaling_factor: Annotated[float | None, "Factor on each decrease."]
    aggregation_function: Annotated[str | None, "How reports are combined: mean, max or min."]


@dataclass(frozen=True)
class ServeApplication:
    """The Ray Serve LLM application."""

    model_id: Annotated[str, "Name by which clients ask for the model."]
    model_source: Annotated[str, "Hub repository or path that vLLM loads."]
    revision: Annotated[str | None, "Revision of the repository; null: its default branch."]
    accelerator_type: Annotated[str | None, "Ray's name of the GPU; null where it has none."]
    accelerator_kind: Annotated[str, "What the engine runs on: gpu or cpu."]
    placement_strategy: Annotated[str, "How Ray places the engine's processes on nodes."]
    bundle_resource: Annotated[str, "What each process of the engine reserves: GPU or CPU."]
    ray_resources: Annotated[Mapping[str, float], "Custom Ray resources that each process reserves."]
    engine_cpus: Annotated[float, "Ray's logical CPUs of a replica beside its processes."]
    ingress_cpus: Annotated[float, "Ray's logical CPUs of a replica of the ingress."]
    deployment: Annotated[str, "Name that Ray gives to the model's Serve deployment."]
    max_ongoing_requests: Annotated[int, "Requests that a replica accepts at once."]
    autoscaling: Autoscaling
    ingress_autoscaling: Autoscaling
    health_check_period: Annotated[int, "Seconds between two health checks of a replica."]
    health_check_timeout: Annotated[int, "Seconds after which a health check has failed."]
    graceful_shutdown_timeout: Annotated[int, "Seconds that a replica has to finish its requests."]
    adapters: Annotated[tuple[Adapter, ...] | None, "LoRA adapters that the engine loads; null for none."] = field(
        default=None, metadata=OMIT_NONE
    )
    tokenizer: Annotated[
        str | None, "Repository from which the ingress loads the tokenizer; empty: it does not; null: model_source."
    ] = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class IngressApplication:
    """The Serve application in front of models that have an application each."""

    cpus: Annotated[float, "Ray's logical CPUs of a replica."]
    resource: Annotated[str, "Custom Ray resource of which a replica takes one; only workers for the ingress offer it."]
    autoscaling: Autoscaling
    graceful_shutdown_timeout: Annotated[int, "Seconds that a replica has to finish its requests."]


@dataclass(frozen=True)
class OtherApplication:
    """A Serve application of the user's own, in Ray's form."""

    name: Annotated[str, "Name of the application."]
    route_prefix: Annotated[str, "Path below which it answers."]
    import_path: Annotated[str, "Import path of the application or its builder."]
    args: Annotated[Mapping[str, Any], "Arguments of the builder."]
    runtime_env: Annotated[Mapping[str, Any], "Runtime environment of its replicas."]
    deployments: Annotated[tuple[Mapping[str, Any], ...], "Options of its deployments."]


@dataclass(frozen=True)
class CodeVolume:
    """Python files of a ConfigMap, one by one or in a zip file."""

    config_map: Annotated[str, "Name of the ConfigMap."]
    mount_path: Annotated[str, "Path at which it is mounted."]
    data: Annotated[Mapping[str, str], "Files of the ConfigMap by their keys."]
    paths: Annotated[
        Mapping[str, str], "Paths of keys below the mount path, where they differ; empty if every key is a path."
    ]
    archives: Annotated[Mapping[str, str], "Zip files of the ConfigMap by their keys, in base64."] = field(
        default_factory=dict
    )
    digest: Annotated[str, "Digest of the code, whatever its comments are; empty for files of the user's."] = ""
    annotations: Annotated[Mapping[str, str], "Annotations of the ConfigMap."] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """A probe over HTTP of the container itself."""

    path: Annotated[str, "Path that is requested."]
    port: Annotated[int, "Port that is asked."]
    https: Annotated[bool, "Whether it is asked over TLS."]
    initial_delay: Annotated[int, "Seconds before the first probe."]
    period: Annotated[int, "Seconds between two probes."]
    timeout: Annotated[int, "Seconds after which a probe has failed."]
    failure_threshold: Annotated[int, "Failures in a row that count."]


@dataclass(frozen=True)
class ModelServer:
    """vLLM's own OpenAI server, which runs beside Ray in the pods of a worker group."""

    model_source: Annotated[str, "Hub repository or path that vLLM loads."]
    arguments: Annotated[tuple[str, ...], "Arguments of `vllm serve`."]
    startup: Probe
    liveness: Probe
    drain: Annotated[int, "Seconds between the request to end and the end of new requests."]


@dataclass(frozen=True)
class WorkerGroup:
    """A group of workers. readiness: when they take requests; None: as soon as Ray runs. server: what is beside Ray."""

    name: Annotated[str, "Name of the group."]
    min_workers: Annotated[int, "Smallest number of workers."]
    max_workers: Annotated[int, "Largest number of workers."]
    cpus: Annotated[int, "Logical CPUs that each offers to Ray."]
    pod_cpu: Annotated[str, "CPU request of its container, a quantity."]
    pod_memory: Annotated[str, "Memory request and limit of its container, a quantity."]
    extended_resources: Annotated[Mapping[str, int], "GPUs by the name of their resource."]
    ray_resources: Annotated[
        str | None, "Custom resources that Ray's autoscaler expects of a worker, as JSON; null for none."
    ]
    pod: PodTemplate
    readiness: Probe | None
    server: ModelServer | None = None
    ray_labels: Annotated[Mapping[str, str], "Labels of its Ray nodes."] = field(default_factory=dict)
    idle_timeout: Annotated[
        int | None, "Seconds for which a worker without a replica is kept; null: the autoscaler's."
    ] = None


@dataclass(frozen=True)
class Autoscaler:
    """Ray's autoscaler, a sidecar of the head."""

    cpu: Annotated[str, "CPU request, a quantity."]
    memory: Annotated[str, "Memory request, a quantity."]
    memory_limit: Annotated[str, "Memory limit, a quantity."]
    idle_timeout: Annotated[int, "Seconds for which a worker without a replica is kept."]


@dataclass(frozen=True)
class Deployment:
    """All that the manifests say beyond the sections of the plan (parallelism, engine, pods).

    serve, autoscaler: None in mode raycluster. serve_options: what the Serve configuration says beside its
    applications. pod_options: what the user asks of the pods, for errors about raw parts of them.
    ingress: where every model has a Serve application of its own; None: one application has the model and an ingress.
    gateway: the settings of the gateway as the ingress takes them in its user_config; None: there is no gateway.
    head_serves: whether the head is among the addresses of the service.
    serving_code: whether the pods mount the code of ingress and gateway.
    storage: what is rendered for the model's files and the caches; what pods mount of them is in their templates.
    applications: those of the user's own, whose workers are the last; code: their Python files.
    worker_groups: that of the ingress, if it has one, and then those with engines; in mode raycluster the last one has
    the further pods of replicas that need several.
    """

    name: str
    namespace: str | None
    runtime: Runtime
    mode: Mode
    model_id: str
    serve: ServeApplication | None
    head: PodTemplate
    worker_groups: tuple[WorkerGroup, ...]
    autoscaler: Autoscaler | None
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
    head_serves: bool = True
    ingress: IngressApplication | None = field(default=None, metadata=OMIT_NONE)
    gateway: Mapping[str, Any] | None = field(default=None, metadata=OMIT_NONE)
    redis: RedisServer | None = field(default=None, metadata=OMIT_NONE)
    serving_code: bool = False
    applications: tuple[OtherApplication, ...] | None = field(default=None, metadata=OMIT_NONE)
    code: CodeVolume | None = field(default=None, metadata=OMIT_NONE)
    storage: ModelStoragePlan | None = field(default=None, metadata=OMIT_NONE)

    @property
    def worker(self) -> WorkerGroup:
        """The workers with the engines."""
        return self.worker_groups[0 if self.ingress is None else 1]
