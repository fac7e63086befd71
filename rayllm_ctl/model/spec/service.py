"""An LLMService, as flags or a spec file state it. Unset (None) means: the planner decides.

A spec file has these fields in camelCase. The annotations are its schema: text is the description that editors show,
SECONDS, QUANTITY and Wrapped say where the file writes a value in another form than Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.exposure import Exposure
from rayllm_ctl.model.spec.form import LENGTHS, QUANTITY, SECONDS, Instead, SecretKey, Wrapped
from rayllm_ctl.model.spec.gateway import Gateway
from rayllm_ctl.model.spec.model_storage import Caches, ModelStorage
from rayllm_ctl.model.spec.operations import Availability, Monitoring
from rayllm_ctl.model.spec.own_applications import OwnApplication
from rayllm_ctl.model.spec.patches import Patch
from rayllm_ctl.model.spec.pod_options import Pods
from rayllm_ctl.model.spec.ray_options import RayOptions, Upgrade, Way
from rayllm_ctl.model.spec.security import Security
from rayllm_ctl.model.spec.serve_options import Serve
from rayllm_ctl.model.spec.transformers import EngineKind, TransformersOptions

API_VERSION = "rayllm.io/v1alpha1"
KIND = "LLMService"

Objective = Literal["cost", "throughput", "latency"]
AcceleratorKind = Literal["gpu", "cpu"]
Mode = Literal["rayservice", "raycluster"]
ServingCode = Literal["mounted", "image"]
Aggregation = Literal["mean", "max", "min"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter of a model."""

    id: Annotated[str, "Name by which clients ask for the model with the adapter."]
    path: Annotated[str, "Directory in the pods that contains the adapter, or its folder in an object store: s3://..."]


@dataclass(frozen=True)
class Model:
    """Which model is served."""

    id: Annotated[str, "Hugging Face name, or any name with `path`. Clients ask for the model by this name."]
    revision: Annotated[str | None, "Branch, tag or commit on the Hugging Face Hub."] = None
    path: Annotated[str | None, "Directory in the pods that contains the model, instead of the Hub."] = None
    token_secret: Annotated[SecretKey | None, "Secret with a Hugging Face token, for gated models."] = None
    adapters: Annotated[tuple[Adapter, ...], "LoRA adapters, which clients ask for by their ids."] = ()


NO_MODEL = Model("")
"""The model of a service that lists several, or that has none."""


@dataclass(frozen=True)
class ModelEngine:
    """Settings of the engine for one model, by vLLM's names. What is left out is planned."""

    kind: Annotated[EngineKind, "vllm, or transformers for models that vLLM does not support."] = "vllm"
    max_model_len: Annotated[int | None, "Context length of a request, in tokens."] = None
    dtype: Annotated[str | None, "Data type of weights and activations: auto, bfloat16, float16, float32."] = None
    quantization: Annotated[
        str | None, "Quantization method: fp8, awq, gptq, ...; of transformers bitsandbytes-8bit or bitsandbytes-4bit."
    ] = None
    kv_cache_dtype: Annotated[str | None, "Data type of the KV cache: auto, fp8, ..."] = None
    gpu_memory_utilization: Annotated[float | None, "Fraction of GPU memory that vLLM may use."] = None
    max_num_seqs: Annotated[int | None, "Maximum number of requests that a replica runs at once."] = None
    max_num_batched_tokens: Annotated[int | None, "Maximum number of tokens per engine step."] = None
    args: Annotated[Mapping[str, Any], "Further engine arguments by their vLLM name."] = field(default_factory=dict)
    transformers: TransformersOptions | None = None


@dataclass(frozen=True)
class Engine(ModelEngine):
    """Settings of the engine, by vLLM's names, and what all pods run. What is left out is planned."""

    image: Annotated[str | None, "Container image with Ray and vLLM, for head and workers."] = None
    serving_code: Annotated[
        ServingCode,
        "Where the pods find the gateway's code: mounted from a ConfigMap, or in the image (rayllm-ctl image recipe).",
    ] = "mounted"
    vllm_version: Annotated[str | None, "vLLM version to plan for."] = None
    ray_version: Annotated[str | None, "Ray version in the image."] = None
    env: Annotated[Mapping[str, str], "Environment variables of head and workers. No secrets."] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class Accelerator:
    """What the engine runs on. Without a GPU type, the planner chooses."""

    kind: Annotated[AcceleratorKind, "GPUs, or CPUs for small models and tests."] = "gpu"
    gpu: Annotated[str | None, "GPU type, as listed by `rayllm-ctl gpus`: H100-80GB, L4, ..."] = None


@dataclass(frozen=True)
class Parallelism:
    """How one replica is spread over GPUs. What is left out is planned."""

    tensor: Annotated[int | None, "Tensor parallel size: GPUs of one node that share each layer."] = None
    pipeline: Annotated[int | None, "Pipeline parallel size: groups of layers, one node each."] = None
    across_nodes: Annotated[bool, "Let `tensor` exceed the GPUs of a node. Slow unless the network is very fast."] = (
        False
    )


@dataclass(frozen=True)
class Replicas:
    """How many replicas run: autoscaled if min is less than max, a fixed number if they are equal.

    The delays, the look-back period and the interval are seconds. Where a count is given, min and max are equal to it.
    """

    min: Annotated[int, "Minimum number of replicas; 0 scales to zero when idle."] = 1
    max: Annotated[int, "Maximum number of replicas."] = 1
    target_ongoing_requests: Annotated[
        int | None, "Target number of ongoing requests per replica; by default half of what it holds."
    ] = None
    upscale_delay: Annotated[
        float | None, SECONDS, "How long the load must be high before a replica is added; 15s by default."
    ] = None
    downscale_delay: Annotated[
        float | None, SECONDS, "How long the load must be low before a replica is removed; 5m by default."
    ] = None
    look_back_period: Annotated[
        float | None, SECONDS, "Time window over which the load is averaged; 15s by default."
    ] = None
    initial: Annotated[int | None, "Number of replicas at first, until the load is known; min by default."] = None
    downscale_to_zero_delay: Annotated[
        float | None, SECONDS, "How long there must be no load before the last replica is removed; as downscaleDelay."
    ] = None
    metrics_interval: Annotated[float | None, SECONDS, "How often replicas report their load; 10s by default."] = None
    upscaling_factor: Annotated[float | None, "Factor of every increase; 1 by default, less is more cautious."] = None
    downscaling_factor: Annotated[float | None, "Factor of every decrease; 1 by default, less is more cautious."] = None
    aggregation_function: Annotated[
        Aggregation | None, "Aggregation of the load over the time window: mean (default), max or min."
    ] = None
    count: Annotated[
        int | None,
        Instead(("min", "max")),
        "A fixed number of replicas, instead of min and max. It is what `kubectl scale` changes of an LLMService.",
    ] = None

    @property
    def autoscaled(self) -> bool:
        return self.max > self.min


@dataclass(frozen=True)
class Volume:
    """A volume mounted into head and workers, from exactly one source."""

    name: Annotated[str, "Name of the volume in the pods: a DNS label."]
    mount_path: Annotated[str, "Directory in the containers where it is mounted."]
    persistent_volume_claim: Annotated[str | None, Wrapped("claimName"), "An existing PersistentVolumeClaim."] = None
    host_path: Annotated[str | None, Wrapped("path"), "An existing directory of the node."] = None
    config_map: Annotated[str | None, Wrapped("name"), "A ConfigMap; each key is a file."] = None
    secret: Annotated[str | None, Wrapped("secretName"), "A Secret; each key is a file."] = None
    read_only: Annotated[bool, "Mount it read-only."] = True


@dataclass(frozen=True)
class Storage:
    """Volumes of the pods, where the weights come from, and caches."""

    volumes: Annotated[tuple[Volume, ...], "Volumes that are mounted into head and workers."] = ()
    model: Annotated[ModelStorage | None, "Where the weights come from; by default each pod downloads them."] = None
    caches: Annotated[Caches | None, "What later starts find again."] = None


@dataclass(frozen=True)
class Toleration:
    """A taint of nodes that pods tolerate."""

    key: Annotated[str, "Key of the taint."]
    value: Annotated[str | None, "Value of the taint; any if it is left out."] = None
    effect: Annotated[TaintEffect | None, "Effect of the taint; any if it is left out."] = None


@dataclass(frozen=True)
class Scheduling:
    """Where pods and replicas may run. A node selector replaces the affinity for the GPU's node labels."""

    node_selector: Annotated[Mapping[str, str], "Labels that nodes must have."] = field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], "Taints to tolerate, in addition to those of GPU nodes."] = ()
    ray_resources: Annotated[
        Mapping[str, float], "Custom Ray resources: the amount that each engine process takes, and workers offer."
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class PodResources:
    """Size of a pod, in Kubernetes quantities. What is left out is planned."""

    cpu: Annotated[str | None, QUANTITY, "CPU request: 500m, 4."] = None
    memory: Annotated[str | None, QUANTITY, "Memory request and limit: 16Gi."] = None


@dataclass(frozen=True)
class Resources:
    """Sizes of the pods. What is left out is planned."""

    head: Annotated[PodResources, "The head pod."] = PodResources()
    worker: Annotated[PodResources, "Each worker pod."] = PodResources()
    ingress: Annotated[PodResources, "Each pod of the ingress in front of several models or a gateway."] = (
        PodResources()
    )


@dataclass(frozen=True)
class WorkerResources:
    """Sizes of the pods of one model. What is left out is planned."""

    worker: Annotated[PodResources, "Each worker pod of the model."] = PodResources()


@dataclass(frozen=True)
class ExtraWorkers:
    """A further group of workers, which Ray's autoscaler adds when replicas do not fit. idle_timeout is seconds."""

    name: Annotated[str, "Name of the group: a DNS label."]
    min: Annotated[int, "Minimum number of pods."] = 0
    max: Annotated[int, "Maximum number of pods."] = 1
    gpus: Annotated[int | None, "GPUs of each pod: those of the planned workers by default, 0 for none."] = None
    idle_timeout: Annotated[
        float | None, SECONDS, "How long a pod without a replica is kept; as spec.ray.idleTimeout by default."
    ] = None
    resources: Annotated[PodResources, "Size of each pod: that of the planned workers by default."] = PodResources()
    ray_resources: Annotated[Mapping[str, int], "Custom Ray resources that each pod offers."] = field(
        default_factory=dict
    )
    node_selector: Annotated[Mapping[str, str], "Labels that nodes must have, instead of those of the GPU."] = field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[Toleration, ...], "Taints to tolerate, in addition to those of GPU nodes."] = ()


@dataclass(frozen=True)
class Load:
    """The load to plan for. None of it is rendered.

    ttft and tpot are seconds.
    """

    objective: Annotated[Objective | None, "What the choice of GPUs optimizes."] = None
    concurrency: Annotated[int | None, "Concurrent requests over all replicas."] = None
    input_tokens: Annotated[int | str | None, LENGTHS, "Tokens of a prompt, or their distribution."] = None
    output_tokens: Annotated[int | str | None, LENGTHS, "Tokens of an answer, or their distribution."] = None
    cached_tokens: Annotated[int | None, "Tokens of a prompt that the prefix cache holds, on average."] = None
    accepted_tokens: Annotated[
        float | None, "Tokens that a step of speculative decoding adds to an answer, on average; at least 1."
    ] = None
    ttft: Annotated[float | None, SECONDS, "Target time to first token."] = None
    tpot: Annotated[float | None, SECONDS, "Target time per output token."] = None
    rate: Annotated[float | None, "Requests per second."] = None
    calibration: Annotated[
        str | None, "File that `bench --calibrate` wrote, relative to the spec file: by how much the plan was off."
    ] = None


@dataclass(frozen=True)
class ModelEntry(Model):
    """One of several models of a service: its own Serve application and group of workers."""

    name: Annotated[str | None, "Short name of application and workers, a DNS label; by default from the id."] = None
    engine: ModelEngine = ModelEngine()
    accelerator: Accelerator = Accelerator()
    parallelism: Parallelism = Parallelism()
    replicas: Replicas = Replicas()
    resources: WorkerResources = WorkerResources()
    load: Load = Load()


@dataclass(frozen=True)
class LLMService:
    """A model or several, served on a Ray cluster on Kubernetes: by Ray Serve LLM, or by vLLM's own server."""

    name: Annotated[str, "Name of the service: a DNS-1035 label of at most 47 characters."]
    model: Annotated[Model, "Which model is served; or spec.models."] = NO_MODEL
    namespace: Annotated[str | None, "Namespace; by default that of the kubeconfig context."] = None
    models: Annotated[tuple[ModelEntry, ...], "Several models behind one endpoint, instead of spec.model."] = ()
    applications: Annotated[tuple[OwnApplication, ...], "Serve applications of your own, next to the models."] = ()
    mode: Annotated[Mode, "rayservice: Ray Serve LLM, autoscaled. raycluster: vLLM's own server."] = "rayservice"
    engine: Engine = Engine()
    accelerator: Accelerator = Accelerator()
    parallelism: Parallelism = Parallelism()
    replicas: Replicas = Replicas()
    storage: Storage = Storage()
    scheduling: Scheduling = Scheduling()
    resources: Resources = Resources()
    serve: Serve = Serve()
    gateway: Annotated[Gateway | None, "A gateway in front of the models: checks, keys, limits, queue."] = None
    pods: Pods = Pods()
    worker_groups: Annotated[tuple[ExtraWorkers, ...], "Further groups of workers."] = ()
    security: Security = Security()
    load: Load = Load()
    exposure: Exposure = Exposure()
    availability: Availability = Availability()
    monitoring: Monitoring = Monitoring()
    ray: RayOptions = RayOptions()
    upgrade: Upgrade = Upgrade()
    rollout: Annotated[
        Way,
        "How a change reaches running pods, as --upgrade of `deploy`. in-place: without a second RayCluster; surge: in "
        "place with one extra replica; new-cluster: with a second RayCluster; shrink: likewise, with fewer replicas in "
        "the meantime, which the controller does not do; auto: by change and capacity.",
    ] = "auto"
    patches: Annotated[tuple[Patch, ...], "Changes of the rendered objects, applied last."] = ()
    suspend: Annotated[bool, "Have the controller delete the pods, and keep all else. `deploy` rejects it."] = False
    plan_only: Annotated[
        bool,
        "Have the controller plan the service, show the plan in the status and apply nothing. `deploy` rejects it.",
    ] = False
    render_version: Annotated[
        str | None,
        "Any word, such as a version. The controller renders a service again only if its spec has changed: a new word "
        "has it do so, with the version that runs. The command line renders each time.",
    ] = None
