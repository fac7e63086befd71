"""The spec file's form, field by field: pydantic models at the boundary, and what they become.

Descriptions end up in the JSON schema, and so in editors. Shape and types are checked here; what values make sense
together is checked in rayllm_ctl.model.validation, which flags share.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from rayllm_ctl.model import service as model
from rayllm_ctl.model.jsonform import camel
from rayllm_ctl.model.quantities import parse_duration


def _seconds(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _text_of_number(value: Any) -> Any:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _empty_section(value: Any) -> Any:
    return {} if value is None else value


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^(0|(\d+(\.\d+)?(ms|h|m|s))+)$"}]}),
]
Quantity = Annotated[
    str,
    BeforeValidator(_text_of_number),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
]
Optional = BeforeValidator(_empty_section)
"""For sections: a key with nothing below it is an empty section."""


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=camel, allow_inf_nan=False, protected_namespaces=()
    )


class SecretKey(Section):
    """One key of a Secret in the service's namespace."""

    name: str
    key: str


class Model(Section):
    """Which model is served."""

    id: str = Field(description="Hugging Face name, or any name with `path`. Clients ask for the model by this name.")
    revision: str | None = Field(default=None, description="Branch, tag or commit on the hub.")
    path: str | None = Field(default=None, description="Folder in the pods that holds the model, instead of the hub.")
    token_secret: SecretKey | None = Field(
        default=None, description="Secret with a Hugging Face token, for gated models."
    )


class Engine(Section):
    """The engine's settings, in vLLM's terms. What is left out is planned."""

    image: str | None = Field(default=None, description="Container image with Ray and vLLM, for head and workers.")
    vllm_version: str | None = Field(default=None, description="vLLM version to plan for.")
    ray_version: str | None = Field(default=None, description="Ray version in the image.")
    max_model_len: int | None = Field(default=None, description="Context length of a request, in tokens.")
    dtype: str | None = Field(
        default=None, description="Type of weights and activations: auto, bfloat16, float16, float32."
    )
    quantization: str | None = Field(default=None, description="Quantization method: fp8, awq, gptq, ...")
    kv_cache_dtype: str | None = Field(default=None, description="Type of the KV cache: auto, fp8, ...")
    gpu_memory_utilization: float | None = Field(
        default=None, description="Share of the GPU's memory that vLLM may use."
    )
    max_num_seqs: int | None = Field(default=None, description="Requests that run at once in a replica.")
    max_num_batched_tokens: int | None = Field(default=None, description="Tokens of one engine step.")
    args: dict[str, Any] = Field(default_factory=dict, description="Further engine arguments by their vLLM name.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment of head and workers. No secrets.")


class Accelerator(Section):
    """What the engine runs on."""

    kind: Literal["gpu", "cpu"] = Field(default="gpu", description="GPUs, or CPUs for small models and tests.")
    gpu: str | None = Field(
        default=None, description="Kind of GPU, as `rayllm-ctl gpus` lists them: H100-80GB, L4, ..."
    )


class Parallelism(Section):
    """How one replica is spread over GPUs. What is left out is planned."""

    tensor: int | None = Field(default=None, description="GPUs of one node that share each layer.")
    pipeline: int | None = Field(default=None, description="Groups of layers, one node each.")
    across_nodes: bool = Field(
        default=False, description="Let `tensor` be more GPUs than a node has; slow unless the network is very fast."
    )


class Replicas(Section):
    """How many replicas. min below max autoscales; min 0 gives everything back while nobody asks."""

    min: int = Field(default=1, description="The fewest replicas.")
    max: int = Field(default=1, description="The most replicas.")
    target_ongoing_requests: int | None = Field(
        default=None, description="Requests in flight that a replica should have."
    )
    upscale_delay: Seconds | None = Field(
        default=None, description="How long the load must be high before a replica is added."
    )
    downscale_delay: Seconds | None = Field(
        default=None, description="How long it must be low before one is taken away."
    )
    look_back_period: Seconds | None = Field(default=None, description="Window over which the load is averaged.")


class Claim(Section):
    claim_name: str


class HostPath(Section):
    path: str


class ConfigMap(Section):
    name: str


class Secret(Section):
    secret_name: str


class Volume(Section):
    """A volume mounted into head and workers, from exactly one source."""

    name: str
    mount_path: str
    read_only: bool = True
    persistent_volume_claim: Claim | None = None
    host_path: HostPath | None = None
    config_map: ConfigMap | None = None
    secret: Secret | None = None

    def to_model(self) -> model.Volume:
        claim, path, config, secret = self.persistent_volume_claim, self.host_path, self.config_map, self.secret
        return model.Volume(
            name=self.name,
            mount_path=self.mount_path,
            read_only=self.read_only,
            persistent_volume_claim=claim.claim_name if claim is not None else None,
            host_path=path.path if path is not None else None,
            config_map=config.name if config is not None else None,
            secret=secret.secret_name if secret is not None else None,
        )


class Storage(Section):
    volumes: list[Volume] = Field(default_factory=list)


class Toleration(Section):
    """A taint to tolerate; without a value, any value of the key."""

    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Scheduling(Section):
    """Where pods may run. A node selector replaces the choice of nodes by their GPU labels."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class PodResources(Section):
    cpu: Quantity | None = Field(default=None, description="CPU request: 500m, 4.")
    memory: Quantity | None = Field(default=None, description="Memory request and limit: 16Gi.")


class Resources(Section):
    """Sizes of the pods. What is left out is planned."""

    head: Annotated[PodResources, Optional] = Field(default_factory=PodResources)
    worker: Annotated[PodResources, Optional] = Field(default_factory=PodResources)


class Load(Section):
    """The load to plan for."""

    objective: Literal["cost", "throughput", "latency"] | None = Field(
        default=None, description="What to choose the GPUs for."
    )
    concurrency: int | None = Field(default=None, description="Requests in flight at once, over all replicas.")
    input_tokens: int | None = Field(default=None, description="Tokens of a prompt.")
    output_tokens: int | None = Field(default=None, description="Tokens of an answer.")
    ttft: Seconds | None = Field(default=None, description="Wanted time to the first token.")
    tpot: Seconds | None = Field(default=None, description="Wanted time per further token.")
    rate: float | None = Field(default=None, description="Requests per second.")


class Spec(Section):
    model: Model
    engine: Annotated[Engine, Optional] = Field(default_factory=Engine)
    accelerator: Annotated[Accelerator, Optional] = Field(default_factory=Accelerator)
    parallelism: Annotated[Parallelism, Optional] = Field(default_factory=Parallelism)
    replicas: Annotated[Replicas, Optional] = Field(default_factory=Replicas)
    storage: Annotated[Storage, Optional] = Field(default_factory=Storage)
    scheduling: Annotated[Scheduling, Optional] = Field(default_factory=Scheduling)
    resources: Annotated[Resources, Optional] = Field(default_factory=Resources)
    load: Annotated[Load, Optional] = Field(default_factory=Load)


class Metadata(Section):
    name: str = Field(description="Name of the service: a DNS-1035 label of at most 47 characters.")
    namespace: str | None = Field(default=None, description="Namespace; the kubeconfig context's by default.")


class Document(Section):
    """An LLMService of rayllm-ctl: one model, served by Ray Serve LLM on Kubernetes."""

    api_version: Literal["rayllm.io/v1alpha1"]
    kind: Literal["LLMService"]
    metadata: Metadata
    spec: Spec

    def to_model(self) -> model.LLMService:
        spec = self.spec
        token = spec.model.token_secret
        return model.LLMService(
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            model=model.Model(
                id=spec.model.id,
                revision=spec.model.revision,
                path=spec.model.path,
                token_secret=model.SecretKey(token.name, token.key) if token is not None else None,
            ),
            engine=model.Engine(**_fields(spec.engine)),
            accelerator=model.Accelerator(**_fields(spec.accelerator)),
            parallelism=model.Parallelism(**_fields(spec.parallelism)),
            replicas=model.Replicas(**_fields(spec.replicas)),
            storage=model.Storage(tuple(volume.to_model() for volume in spec.storage.volumes)),
            scheduling=model.Scheduling(
                node_selector=spec.scheduling.node_selector,
                tolerations=tuple(model.Toleration(**_fields(t)) for t in spec.scheduling.tolerations),
            ),
            resources=model.Resources(
                head=model.PodResources(**_fields(spec.resources.head)),
                worker=model.PodResources(**_fields(spec.resources.worker)),
            ),
            load=model.Load(**_fields(spec.load)),
        )


def _fields(section: Section) -> dict[str, Any]:
    """The section's fields by name, for a dataclass that has the same."""
    return {name: getattr(section, name) for name in type(section).model_fields}
