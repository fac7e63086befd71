"""A plan: sizes, limits, and why. Bytes are per GPU; times are seconds; prices USD per hour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import service_name
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.plan.transformers import TransformersPlan
from rayllm_ctl.model.text.json_form import OMIT_NONE, json_key

Verdict = Literal["fits", "risky", "does-not-fit", "invalid"]
StorageKind = Literal["hub", "hub-cache", "claim", "claim-on-disk", "bucket-copy", "bucket-stream", "image", "path"]
"""How the weights come to the pods; path: a folder that the pods have anyway."""


@dataclass(frozen=True)
class Band:
    """A figure with its honest width: low and high hold in about nine of ten cases."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True)
class Reason:
    """One line of why. `code` is stable kebab-case, `suggestion` flags or a command that would work (may be empty)."""

    code: str
    message: str
    suggestion: str = ""


@dataclass(frozen=True)
class Suggestion:
    """A change that was planned and works: the flags to type, and what they bring."""

    flags: str
    effect: str


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of the fullest GPU, in bytes. `parameter_bytes`: raw; `weights_bytes`: what vLLM logs as loaded.

    `kv_needed_bytes`: what one request of max_model_len takes. `kv_cache_tokens` and `max_concurrency` (requests of
    max_model_len at once) are vLLM's own log figures.
    """

    total_bytes: int
    requested_bytes: int
    parameter_bytes: int
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    kv_cache_bytes: Band
    kv_cache_tokens: Band
    max_concurrency: Band
    kv_needed_bytes: int = 0


@dataclass(frozen=True)
class ParallelismPlan:
    """How one replica is spread, and how many replicas there are (at least and at most).

    With the Transformers engine tensor is 1 and pipeline the number of GPUs, which hold whole layers. data: ranks of
    data parallelism in a replica, if there are several.
    """

    tensor: int
    pipeline: int
    replicas: int
    max_replicas: int
    gpus_per_replica: int = field(init=False)
    data: int | None = field(default=None, metadata=OMIT_NONE)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus_per_replica", self.tensor * self.pipeline * (self.data or 1))


@dataclass(frozen=True)
class EngineSettings:
    """The engine's settings. None that depends on the GPU seen by the driver is left to vLLM's defaults.

    weights: how a quantized checkpoint stores them; the manifests do not say it, vLLM reads it from config.json.
    """

    vllm_version: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    dtype: str
    gpu_memory_utilization: float | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class PodSizes:
    """Requests and limits as Kubernetes quantities. The worker pod holds the GPUs of one node of a replica.

    `engine_cpus`: Ray's logical CPUs that one replica reserves beside its engine processes.
    """

    head_cpu: str
    head_memory: str
    worker_cpu: str
    worker_memory: str
    gpus_per_worker: int
    workers_per_replica: int
    engine_cpus: float


@dataclass(frozen=True)
class StartupPlan:
    """How long until ready, by step, in seconds; `wait_seconds` is the limit that probes and waits use.

    download: what a pod fetches before it loads. way: where the weights come from. further: total of a later replica,
    which finds what the first one left in shared caches. model_download: of the Job of a mirror, which pods wait for;
    not part of the total.
    """

    download: Band = field(metadata=json_key("downloadSeconds"))
    load: Band = field(metadata=json_key("loadSeconds"))
    compile: Band = field(metadata=json_key("compileSeconds"))
    total: Band = field(metadata=json_key("totalSeconds"))
    wait_seconds: int
    way: StorageKind = "hub"
    further: Band | None = field(default=None, metadata={**json_key("furtherTotalSeconds"), **OMIT_NONE})
    model_download: Band | None = field(default=None, metadata={**json_key("modelDownloadSeconds"), **OMIT_NONE})

    @property
    def ready(self) -> Band:
        """Seconds from the apply until the first replica is ready, with the Job of a mirror."""
        first, job = self.total, self.model_download
        if job is None:
            return first
        return Band(first.low + job.low, first.typical + job.typical, first.high + job.high)

    @property
    def deploy_wait_seconds(self) -> int:
        """The limit of a wait for the whole service: that of its replicas, after the Job of a mirror."""
        job = 0.0 if self.model_download is None else 1.5 * self.model_download.high
        return self.wait_seconds + 60 * math.ceil(job / 60)


@dataclass(frozen=True)
class StorageWay:
    """One way to bring the weights to all pods.

    first: seconds to the first answer, with the download of a mirror; further: of a later replica. downloaded_bytes:
    from the Hub, for all replicas; read_bytes: what all pods read from claim, bucket or registry. setting: a flag or
    a field below spec.
    """

    way: StorageKind
    first: Band = field(metadata=json_key("firstAnswerSeconds"))
    further: Band = field(metadata=json_key("furtherAnswerSeconds"))
    downloaded_bytes: int
    read_bytes: int
    needs: str
    setting: str


@dataclass(frozen=True)
class StoragePlan:
    """The weights' files and the ways to them.

    files_bytes: size of the checkpoint's files, which claims are sized by; counted: whether it was read from the files,
    not derived from the model's config. pods: how many load the weights, with all replicas. way: that of the service.
    page_cache: seconds to the first answer of a replica whose node has the files in memory. ways: none if the weights
    are in a folder of the pods.
    """

    files_bytes: int
    counted: bool
    replicas: int
    pods: int
    way: StorageKind
    ways: tuple[StorageWay, ...]
    recommended: StorageKind | None
    reason: str
    page_cache: Band = field(metadata=json_key("pageCacheSeconds"))


@dataclass(frozen=True)
class GPUChoice:
    """The GPU as far as manifests need it: node labels (any of them identifies it), Ray's accelerator type.

    `resource` is the extended resource that its device plugin offers (amd.com/gpu for AMD). `taints`: those that its
    nodes carry, as key[=value]:effect. compute_capability: None of AMD's, and where the kind is not known.
    host_architecture: of the CPUs of its nodes.
    """

    name: str
    count_per_node: int
    ray_accelerator_type: str | None
    node_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resource: str = "nvidia.com/gpu"
    taints: tuple[str, ...] = ()
    compute_capability: tuple[int, int] | None = None
    host_architecture: str = "amd64"


@dataclass(frozen=True)
class LoadPoint:
    """Requests in flight in one replica, and the length of an average one in tokens."""

    input_tokens: int
    output_tokens: int
    concurrency: float


@dataclass(frozen=True)
class Figures:
    """One replica at a load: seconds to the first token and per further token, output tokens/s and requests/s."""

    ttft: Band = field(metadata=json_key("ttftSeconds", formerly="ttft"))
    tpot: Band = field(metadata=json_key("tpotSeconds", formerly="tpot"))
    output_tokens_per_second: Band
    requests_per_second: Band


@dataclass(frozen=True)
class LongPrompt:
    """A prompt of `input_tokens` tokens, which 95 % of prompts do not exceed: TTFT at the load, in seconds."""

    input_tokens: int
    ttft: Band = field(metadata=json_key("ttftSeconds"))


@dataclass(frozen=True)
class CurvePoint:
    """One replica with `concurrency` requests in flight."""

    concurrency: int
    figures: Figures


@dataclass(frozen=True)
class Throughput:
    """The speed of one replica at `load`, and for a request that has it for itself.

    concurrency_at_load: requests of that length that the replica holds at once. extrapolated: what lies outside the
    measurements behind the bands. calibration: what the figures were multiplied by. curve: the speed by requests in
    flight, up to as many as the replica holds. long_prompt: where lengths differ.
    """

    load: LoadPoint
    concurrency_at_load: Band
    one_request: Figures
    at_load: Figures
    extrapolated: tuple[str, ...]
    calibration: Calibration | None = field(default=None, metadata=OMIT_NONE)
    curve: tuple[CurvePoint, ...] | None = field(default=None, metadata=OMIT_NONE)
    long_prompt: LongPrompt | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Prices in `currency`: per GPU-hour by cloud, per hour at the fewest and the most replicas.

    smallest_machine: GPUs of the smallest machine that clouds rent, where a replica needs fewer.
    """

    known: Literal[True] = True
    currency: str = "USD"
    source: str
    per_gpu_hour: Mapping[str, float]
    per_hour: Band
    per_hour_at_max_replicas: Band
    smallest_machine: int | None = field(default=None, metadata=OMIT_NONE)
    per_million_output_tokens: Band | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True, kw_only=True)
class UnknownCost:
    """Why there is no cost."""

    known: Literal[False] = False
    note: str


@dataclass(frozen=True)
class CandidateSummary:
    """One layout that was considered, and the line that says how it fared. price_per_hour: USD for all replicas."""

    gpu: str
    tensor: int
    pipeline: int
    quantization: str | None
    verdict: Verdict
    replicas: int
    price_per_hour: float | None = field(metadata=json_key("usdPerHour"))
    line: str
    data: int | None = field(default=None, metadata=OMIT_NONE)
    max_model_len: int | None = field(default=None, metadata=OMIT_NONE)
    kv_cache_gib: float | None = field(default=None, metadata=OMIT_NONE)
    tokens_per_second: int | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class Plan:
    """The answer to one LLMService. Fields that a verdict of "invalid" cannot fill are None.

    `proven` is False if the model's facts cannot be seen from here (a folder inside the pod's volume, CPU only):
    sizes are then defaults, not a result. `notes` are facts a reader should know that are not a reason for the verdict;
    `warnings` those of them that `render` and `deploy` say as well: what the manifests depend on, and what pods lack.
    `deployment` is set if the plan runs.
    models: of a service of several models, the plan of each by its short name; the sections of one model are then None.
    transformers: what the Transformers engine is told; engine and memory are those of vLLM and then None.
    """

    verdict: Verdict
    model: str
    facts_source: str
    reasons: tuple[Reason, ...] = ()
    gpu: GPUChoice | None = None
    parallelism: ParallelismPlan | None = None
    engine: EngineSettings | None = None
    memory: MemoryPlan | None = None
    pods: PodSizes | None = None
    startup: StartupPlan | None = None
    storage: StoragePlan | None = field(default=None, metadata=OMIT_NONE)
    throughput: Throughput | None = None
    cost: Cost | UnknownCost | None = None
    suggestions: tuple[Suggestion, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()
    formulas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    proven: bool = True
    deployment: Deployment | None = None
    models: Mapping[str, Plan] | None = field(default=None, metadata=OMIT_NONE)
    transformers: TransformersPlan | None = field(default=None, metadata=OMIT_NONE)

    @property
    def runs(self) -> bool:
        return self.verdict in ("fits", "risky")

    @property
    def file_bytes(self) -> int | None:
        """Of the model's files, where they are known."""
        return None if self.storage is None else self.storage.files_bytes

    @property
    def each(self) -> Mapping[str, Plan]:
        """The plans of the models by their short names: of one model, this one."""
        return {service_name(self.model): self} if self.models is None else self.models
