"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.values import Duration, KeyValue, Quantity, SecretReference, TolerationSpec, VolumeSpec

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class KubeFlags:
    """Which cluster and namespace; None: as the kubeconfig says."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    request_timeout: float


def kube_options(function: F) -> F:
    """--kubeconfig, --context, -n and --request-timeout, handed over as `kube: KubeFlags`."""

    names = ("kubeconfig", "context", "namespace", "request_timeout")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, kube=KubeFlags(*(kwargs.pop(name) for name in names)), **kwargs)

    wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
    wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = wrapper
    for option in (
        click.option(
            "--request-timeout", type=Duration(), default="30s", show_default=True, help="Limit of one request."
        ),
        click.option("--context", help="Context of the kubeconfig; the current one by default."),
        click.option("--kubeconfig", help="Kubeconfig file; KUBECONFIG or ~/.kube/config by default."),
        click.option("-n", "--namespace", help="Namespace; the context's by default."),
    ):
        decorated = option(decorated)
    result: F = decorated
    return result


def output_option(*formats: str, default: str | None = None) -> Callable[[F], F]:
    """-o/--output with the formats that a command has."""
    return click.option("-o", "--output", type=click.Choice(formats), default=default, help="Output format.")


# One line per flag: what a user types, the field of the LLMService it sets, and how its value is read.
_SERVICE_FLAGS: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (
        ("--model",),
        "model.id",
        {"metavar": "NAME", "help": "Model: a Hugging Face name, or any name with --model-path."},
    ),
    (("--name",), "name", {"metavar": "NAME", "help": "Name of the service; from the model's by default."}),
    (("--gpu",), "accelerator.gpu", {"metavar": "GPU", "help": "Kind of GPU, such as H100-80GB; see `gpus`."}),
    (
        ("--accelerator",),
        "accelerator.kind",
        {"type": click.Choice(["gpu", "cpu"]), "help": "Serve on GPUs (default) or CPUs."},
    ),
    (
        ("--tp",),
        "parallelism.tensor",
        {"type": int, "metavar": "N", "help": "Tensor parallelism: GPUs of one node that share each layer."},
    ),
    (
        ("--pp",),
        "parallelism.pipeline",
        {"type": int, "metavar": "N", "help": "Pipeline parallelism: groups of layers, one node each."},
    ),
    (
        ("--tp-across-nodes",),
        "parallelism.across_nodes",
        {"is_flag": True, "default": None, "help": "Let --tp be more GPUs than a node has, over a fast network."},
    ),
    (("--replicas",), "replicas.fixed", {"type": int, "metavar": "N", "help": "A fixed number of replicas."}),
    (
        ("--min-replicas",),
        "replicas.min",
        {"type": int, "metavar": "N", "help": "Autoscaling: at least so many replicas."},
    ),
    (
        ("--max-replicas",),
        "replicas.max",
        {"type": int, "metavar": "N", "help": "Autoscaling: at most so many replicas."},
    ),
    (
        ("--target-ongoing-requests",),
        "replicas.target_ongoing_requests",
        {"type": int, "metavar": "N", "help": "Autoscaling: requests in flight that a replica should have."},
    ),
    (
        ("--upscale-delay",),
        "replicas.upscale_delay",
        {"type": Duration(), "help": "Autoscaling: load must last so long before a replica is added."},
    ),
    (
        ("--downscale-delay",),
        "replicas.downscale_delay",
        {"type": Duration(), "help": "Autoscaling: idleness must last so long before one is taken away."},
    ),
    (
        ("--max-model-len",),
        "engine.max_model_len",
        {"type": int, "metavar": "TOKENS", "help": "Context length of a request."},
    ),
    (("--dtype",), "engine.dtype", {"help": "Type of weights and activations: auto, bfloat16, float16, float32."}),
    (("--quantization",), "engine.quantization", {"help": "Quantization method, in vLLM's terms."}),
    (("--kv-cache-dtype",), "engine.kv_cache_dtype", {"help": "Type of the KV cache: auto, fp8, …"}),
    (
        ("--gpu-memory-utilization",),
        "engine.gpu_memory_utilization",
        {"type": float, "help": "Share of the GPU's memory that vLLM may use."},
    ),
    (("--max-num-seqs",), "engine.max_num_seqs", {"type": int, "help": "Requests that run at once in a replica."}),
    (
        ("--max-num-batched-tokens",),
        "engine.max_num_batched_tokens",
        {"type": int, "help": "Tokens of one engine step."},
    ),
    (("--vllm-version",), "engine.vllm_version", {"help": "vLLM version to plan for."}),
    (
        ("--engine-arg",),
        "engine.args",
        {
            "type": KeyValue(typed=True),
            "multiple": True,
            "metavar": "KEY=VALUE",
            "help": "A further engine argument by its vLLM name; repeatable.",
        },
    ),
    (("--revision",), "model.revision", {"help": "Revision of the model on the hub."}),
    (
        ("--objective",),
        "load.objective",
        {"type": click.Choice(["cost", "throughput", "latency"]), "help": "What the choice of GPUs is best at."},
    ),
    (
        ("--concurrency",),
        "load.concurrency",
        {"type": int, "metavar": "N", "help": "Load: requests in flight at once."},
    ),
    (
        ("--input-tokens",),
        "load.input_tokens",
        {"type": int, "metavar": "N", "help": "Load: average length of a prompt."},
    ),
    (
        ("--output-tokens",),
        "load.output_tokens",
        {"type": int, "metavar": "N", "help": "Load: average length of an answer."},
    ),
    (("--ttft",), "load.ttft", {"type": Duration(), "help": "Limit on the time to the first token (500ms)."}),
    (("--tpot",), "load.tpot", {"type": Duration(), "help": "Limit on the time per output token (40ms)."}),
    (("--rate",), "load.rate", {"type": float, "metavar": "N", "help": "Load: requests per second."}),
)

_DEPLOY_FLAGS: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (("--image",), "engine.image", {"help": "Container image with Ray and vLLM."}),
    (("--model-path",), "model.path", {"metavar": "FOLDER", "help": "Folder in the pods that holds the model."}),
    (
        ("--volume",),
        "storage.volumes",
        {
            "type": VolumeSpec(),
            "multiple": True,
            "help": "Mount a volume: pvc:CLAIM:/models, hostPath:/data:/models; repeatable.",
        },
    ),
    (
        ("--hf-token-secret",),
        "model.token_secret",
        {"type": SecretReference(), "help": "Secret with a Hugging Face token."},
    ),
    (
        ("--env",),
        "engine.env",
        {
            "type": KeyValue(),
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "An environment variable of the pods; repeatable.",
        },
    ),
    (
        ("--cpu",),
        "resources.worker.cpu",
        {"type": Quantity(), "help": "CPU of a worker pod; from the plan by default."},
    ),
    (
        ("--memory",),
        "resources.worker.memory",
        {"type": Quantity(), "help": "Memory limit of a worker pod; from the plan by default."},
    ),
    (
        ("--node-selector",),
        "scheduling.node_selector",
        {
            "type": KeyValue(),
            "multiple": True,
            "metavar": "LABEL=VALUE",
            "help": "Only nodes with this label; repeatable.",
        },
    ),
    (
        ("--toleration",),
        "scheduling.tolerations",
        {"type": TolerationSpec(), "multiple": True, "help": "Tolerate a taint; repeatable."},
    ),
)

FLAGS: dict[str, str] = {field: declaration[0] for declaration, field, _ in _SERVICE_FLAGS + _DEPLOY_FLAGS}
"""The flag that sets a field, for messages."""


def service_options(deploy: bool = True) -> Callable[[F], F]:
    """The flags of an LLMService and -f/--file, handed over as `file: Path | None` and `overrides: dict[str, Any]`.

    `overrides` maps a field's dotted path to the value of a flag that was given. deploy=False leaves out what only
    pods need.
    """
    table = _SERVICE_FLAGS + (_DEPLOY_FLAGS if deploy else ())

    def decorate(function: F) -> F:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            overrides = {}
            for declaration, field, _ in table:
                value = kwargs.pop(declaration[-1].lstrip("-").replace("-", "_"))
                if value not in (None, ()):
                    overrides[field] = value
            return function(*args, overrides=overrides, **kwargs)

        wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
        wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        decorated: Any = wrapper
        file = click.option(
            "-f", "--file", type=click.Path(path_type=Path, dir_okay=False), help="Spec file; flags go above it."
        )
        for declaration, _, settings in reversed(table):
            decorated = click.option(*declaration, **settings)(decorated)
        result: F = file(decorated)
        return result

    return decorate


def facts_options(function: F) -> F:
    """--model-config, --offline, --prices: where the facts of a plan come from."""
    for option in (
        click.option("--prices", type=click.Path(path_type=Path, dir_okay=False), help="Your own GPU prices (YAML)."),
        click.option("--offline", is_flag=True, help="Use no network to look up the model."),
        click.option(
            "--model-config", type=click.Path(path_type=Path), help="config.json of the model, or its folder."
        ),
    ):
        function = option(function)
    return function
