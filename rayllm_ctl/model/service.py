"""What the user wants: an LLMService, as flags or a spec file state it. Unset (None) means: the planner decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

API_VERSION = "rayllm.io/v1alpha1"
KIND = "LLMService"

Objective = Literal["cost", "throughput", "latency"]


@dataclass(frozen=True)
class SecretKey:
    """One key of a Secret in the service's namespace: a reference, never the value."""

    name: str
    key: str


@dataclass(frozen=True)
class Model:
    """Which model. `id` is a hub name; `path` a folder inside the pods' file system that holds the weights instead."""

    id: str
    revision: str | None = None
    path: str | None = None
    token_secret: SecretKey | None = None


@dataclass(frozen=True)
class Engine:
    """The engine's settings, in vLLM's terms. `args` are further engine arguments by their vLLM name (max_loras, …)."""

    image: str | None = None
    vllm_version: str | None = None
    ray_version: str | None = None
    max_model_len: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Accelerator:
    """What the engine runs on. `gpu` is a name of the GPU catalog (H100-80GB); None on GPUs: the planner chooses."""

    kind: Literal["gpu", "cpu"] = "gpu"
    gpu: str | None = None


@dataclass(frozen=True)
class Parallelism:
    """How one replica is spread over GPUs. None: the planner decides. across_nodes: `tensor` may exceed one node."""

    tensor: int | None = None
    pipeline: int | None = None
    across_nodes: bool = False


@dataclass(frozen=True)
class Replicas:
    """How many replicas. min == max is a fixed number; min 0 gives everything back while nobody asks.

    The target is requests in flight per replica; delays and the look-back period are seconds (None: the renderer's).
    """

    min: int = 1
    max: int = 1
    target_ongoing_requests: int | None = None
    upscale_delay: float | None = None
    downscale_delay: float | None = None
    look_back_period: float | None = None

    @property
    def autoscaled(self) -> bool:
        return self.max > self.min


@dataclass(frozen=True)
class Volume:
    """A volume mounted into head and workers. Exactly one of the sources is set."""

    name: str
    mount_path: str
    persistent_volume_claim: str | None = None
    host_path: str | None = None
    config_map: str | None = None
    secret: str | None = None
    read_only: bool = True


@dataclass(frozen=True)
class Storage:
    volumes: tuple[Volume, ...] = ()


@dataclass(frozen=True)
class Toleration:
    key: str
    value: str | None = None
    effect: str | None = None


@dataclass(frozen=True)
class Scheduling:
    """Where pods may run. A node selector of the user's own replaces the affinity for the GPU's node labels."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class PodResources:
    """Kubernetes quantities of one pod; None: from the plan."""

    cpu: str | None = None
    memory: str | None = None


@dataclass(frozen=True)
class Resources:
    head: PodResources = PodResources()
    worker: PodResources = PodResources()


@dataclass(frozen=True)
class Load:
    """The load to size for. Lengths in tokens, ttft and tpot in seconds, rate in requests/s; None: a default."""

    objective: Objective | None = None
    concurrency: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    rate: float | None = None


@dataclass(frozen=True)
class LLMService:
    """One served model. `namespace` None: the kubeconfig context's."""

    name: str
    model: Model
    namespace: str | None = None
    engine: Engine = Engine()
    accelerator: Accelerator = Accelerator()
    parallelism: Parallelism = Parallelism()
    replicas: Replicas = Replicas()
    storage: Storage = Storage()
    scheduling: Scheduling = Scheduling()
    resources: Resources = Resources()
    load: Load = Load()
