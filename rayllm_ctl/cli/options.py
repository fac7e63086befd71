"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.option_groups import gathered
from rayllm_ctl.cli.settings.taken import spec_values
from rayllm_ctl.cli.values import (
    AUTO,
    Duration,
    KeyValue,
    KubeRayVersion,
    ModelName,
    PrintedFormat,
    Quantity,
    SecretReference,
    TokenCount,
    TokenLengths,
    TolerationSpec,
    VolumeSpec,
)
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.spec.fact_sources import FactSources

F = TypeVar("F", bound=Callable[..., Any])


RESULT_FORMATS = ("json", "yaml", "name")
"""Formats of commands that change something: without -o, only the progress is shown."""
TABLE_FORMATS = ("table", "wide", "json", "yaml")
"""Formats of commands that show something. wide: with further columns, where a table has some."""
NAMED_TABLE_FORMATS = (*TABLE_FORMATS, "name")
"""Formats of commands that show objects of the cluster."""
STREAM_FORMATS = ("json", "yaml")
"""Formats of commands that print a document for each change."""


def output_option(*formats: str) -> Callable[[F], F]:
    """-o/--output with the formats that a command has; None for what it prints without -o, which is also `table`."""

    def chosen(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        return None if value == "table" else value

    help_text = "Output format; table by default." if "table" in formats else "Output format."
    return click.option("-o", "--output", type=PrintedFormat(formats), callback=chosen, help=help_text)


FlagTable = tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...]
"""One line per flag: what a user types, the field of the spec it sets, and how its value is read."""

SERVICE_FLAGS: FlagTable = (
    (
        ("--model",),
        "model.id",
        {"type": ModelName(), "metavar": "NAME", "help": "Same as MODEL; or any name with --model-path."},
    ),
    (("--name",), "name", {"metavar": "NAME", "help": "Name of the service; derived from the model by default."}),
    (
        ("--kind",),
        "mode",
        {
            "type": click.Choice(["rayservice", "raycluster"]),
            "help": "Ray Serve LLM on a RayService (default), or vLLM's own server on a RayCluster.",
        },
    ),
    (
        ("--engine",),
        "engine.kind",
        {
            "type": click.Choice(["vllm", "transformers"]),
            "help": "Engine; vllm by default, transformers for models that vLLM does not support.",
        },
    ),
    (("--gpu",), "accelerator.gpu", {"metavar": "GPU", "help": "GPU type, such as H100-80GB; see rayllm-ctl gpus."}),
    (
        ("--accelerator",),
        "accelerator.kind",
        {"type": click.Choice(["gpu", "cpu"]), "help": "Accelerator to serve on; gpu by default."},
    ),
    (
        ("--tp",),
        "parallelism.tensor",
        {"type": int, "metavar": "N", "help": "Tensor parallel size: GPUs of one node that share each layer."},
    ),
    (
        ("--pp",),
        "parallelism.pipeline",
        {"type": int, "metavar": "N", "help": "Pipeline parallel size: groups of layers, one node each."},
    ),
    (
        ("--tp-across-nodes",),
        "parallelism.across_nodes",
        {"is_flag": True, "default": None, "help": "Allow --tp to exceed the GPUs of a node; needs a fast network."},
    ),
    (("--replicas",), "replicas.fixed", {"type": int, "metavar": "N", "help": "Fixed number of replicas."}),
    (
        ("--min-replicas",),
        "replicas.min",
        {"type": int, "metavar": "N", "help": "Minimum number of replicas for autoscaling."},
    ),
    (
        ("--max-replicas",),
        "replicas.max",
        {"type": int, "metavar": "N", "help": "Maximum number of replicas for autoscaling."},
    ),
    (
        ("--target-ongoing-requests",),
        "replicas.target_ongoing_requests",
        {"type": int, "metavar": "N", "help": "Target number of ongoing requests per replica for autoscaling."},
    ),
    (
        ("--upscale-delay",),
        "replicas.upscale_delay",
        {"type": Duration(), "help": "How long the load must be high before a replica is added."},
    ),
    (
        ("--downscale-delay",),
        "replicas.downscale_delay",
        {"type": Duration(), "help": "How long the load must be low before a replica is removed."},
    ),
    (
        ("--max-model-len",),
        "engine.max_model_len",
        {
            "type": TokenCount(auto=True),
            "metavar": "TOKENS",
            "help": "Maximum context length of a request: 32768, 32k (32,000), 32K (32,768); auto: as much as fits.",
        },
    ),
    (("--dtype",), "engine.dtype", {"help": "Data type of weights and activations: auto, bfloat16, float16, float32."}),
    (
        ("--quantization",),
        "engine.quantization",
        {"help": "Quantization method, as the engine names it."},
    ),
    (("--kv-cache-dtype",), "engine.kv_cache_dtype", {"help": "Data type of the KV cache: auto, fp8, ..."}),
    (
        ("--gpu-memory-utilization",),
        "engine.gpu_memory_utilization",
        {"type": float, "help": "Fraction of GPU memory that vLLM may use."},
    ),
    (
        ("--max-num-seqs",),
        "engine.max_num_seqs",
        {"type": int, "help": "Maximum number of requests that a replica runs at once."},
    ),
    (
        ("--max-num-batched-tokens",),
        "engine.max_num_batched_tokens",
        {"type": TokenCount(), "metavar": "TOKENS", "help": "Maximum number of tokens per engine step."},
    ),
    (
        ("--gateway",),
        "gateway",
        {"is_flag": True, "default": None, "help": "Put a gateway in front of the model; see spec.gateway."},
    ),
    (("--vllm-version",), "engine.vllm_version", {"help": "vLLM version to plan for."}),
    (
        ("--engine-arg",),
        "engine.args",
        {
            "type": KeyValue(typed=True),
            "multiple": True,
            "metavar": "KEY=VALUE",
            "help": "Additional engine argument by its vLLM name. Can be repeated.",
        },
    ),
    (("--revision",), "model.revision", {"help": "Branch, tag or commit of the model on the Hugging Face Hub."}),
    (
        ("--objective",),
        "load.objective",
        {"type": click.Choice(["cost", "throughput", "latency"]), "help": "Goal for the choice of GPUs."},
    ),
    (
        ("--concurrency",),
        "load.concurrency",
        {"type": int, "metavar": "N", "help": "Concurrent requests to plan for."},
    ),
    (
        ("--input-tokens",),
        "load.input_tokens",
        {
            "type": TokenLengths(),
            "help": "Prompt length in tokens to plan for: N, uniform:MIN:MAX, lognormal:MEDIAN:SIGMA[:MAX].",
        },
    ),
    (
        ("--output-tokens",),
        "load.output_tokens",
        {"type": TokenLengths(), "help": "Answer length in tokens to plan for, in the same forms."},
    ),
    (
        ("--cached-tokens",),
        "load.cached_tokens",
        {"type": int, "metavar": "N", "help": "Tokens of a prompt in the prefix cache, on average."},
    ),
    (
        ("--accepted-tokens",),
        "load.accepted_tokens",
        {"type": float, "metavar": "N", "help": "Tokens per step of speculative decoding, on average."},
    ),
    (("--ttft",), "load.ttft", {"type": Duration(), "help": "Target time to first token, such as 500ms."}),
    (("--tpot",), "load.tpot", {"type": Duration(), "help": "Target time per output token, such as 40ms."}),
    (("--rate",), "load.rate", {"type": float, "metavar": "N", "help": "Requests per second to plan for."}),
    (
        ("--calibration",),
        "load.calibration",
        {
            "type": click.Path(dir_okay=False),
            "metavar": "FILE",
            "help": "File written by bench --calibrate: the ratio of measured to planned speed.",
        },
    ),
)

DEPLOY_FLAGS: FlagTable = (
    (("--image",), "engine.image", {"help": "Container image with Ray and vLLM."}),
    (("--model-path",), "model.path", {"metavar": "PATH", "help": "Directory in the pods that contains the model."}),
    (
        ("--volume",),
        "storage.volumes",
        {
            "type": VolumeSpec(),
            "multiple": True,
            "help": "Volume to mount: pvc:CLAIM:/models, hostPath:/data:/models. Can be repeated.",
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
            "help": "Environment variable of the pods. Can be repeated.",
        },
    ),
    (
        ("--cpu",),
        "resources.worker.cpu",
        {"type": Quantity(), "help": "CPU request of a worker pod; planned by default."},
    ),
    (
        ("--memory",),
        "resources.worker.memory",
        {"type": Quantity(), "help": "Memory limit of a worker pod; planned by default."},
    ),
    (
        ("--node-selector",),
        "scheduling.node_selector",
        {
            "type": KeyValue(),
            "multiple": True,
            "metavar": "LABEL=VALUE",
            "help": "Label that nodes must have. Can be repeated.",
        },
    ),
    (
        ("--toleration",),
        "scheduling.tolerations",
        {"type": TolerationSpec(), "multiple": True, "help": "Taint to tolerate. Can be repeated."},
    ),
    (
        ("--pod-security",),
        "security.pod_security",
        {
            "type": click.Choice(["restricted", "baseline", "privileged"]),
            "help": "Level of the Pod Security Standards that the pods satisfy; restricted by default.",
        },
    ),
)

MODEL_ARGUMENT = "model_argument"
"""The parameter for the model without a flag: plan Qwen/Qwen3-32B."""

FLAGS: dict[str, str] = {field: declaration[0] for declaration, field, _ in SERVICE_FLAGS + DEPLOY_FLAGS}
"""The flag that sets a field, for messages."""


def service_options(deploy: bool = True, several: bool = False) -> Callable[[F], F]:
    """The flags of an LLMService and -f/--file, handed over as `file: Path | None` and `overrides: dict[str, Any]`.

    `overrides` maps a field's dotted path to the value of a flag that was given. deploy=False leaves out what only
    pods need. several: -f can be repeated, and is handed over as `files: tuple[Path, ...]`.
    """
    return spec_options(SERVICE_FLAGS + (DEPLOY_FLAGS if deploy else ()), several)


def spec_options(table: FlagTable, several: bool = False) -> Callable[[F], F]:
    """The flags of a table and -f/--file, handed over as service_options does, and the model as an argument."""

    fields = {declaration[-1].lstrip("-").replace("-", "_"): field for declaration, field, _ in table}
    fields[MODEL_ARGUMENT] = "model.id"

    def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
        argument, flag = values[MODEL_ARGUMENT], values["model"]
        if argument is not None and flag is not None:
            raise UsageError(f"the model is given twice: {argument} and --model {flag}", hint=f"remove --model {flag}")
        given = spec_values(values, fields)
        return {field: None if value is AUTO else value for field, value in given.items()}

    file = click.option(
        "-f",
        "--file",
        "files" if several else "file",
        type=click.Path(path_type=Path, dir_okay=False),
        multiple=several,
        help="Spec file, - for standard input; flags take precedence." + (" Can be repeated." if several else ""),
    )
    argument = click.argument(MODEL_ARGUMENT, metavar="[MODEL]", required=False, type=ModelName())
    options = [argument, file, *(click.option(*declaration, **settings) for declaration, _, settings in table)]
    return lambda function: gathered(function, options, tuple(fields), "overrides", overrides)


def template_option(function: F) -> F:
    """--template-dir: the user's own templates."""
    return click.option(
        "--template-dir",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="Directory with templates of your own, which replace or add to those of rayllm-ctl.",
    )(function)


def kuberay_option(note: str = "") -> Callable[[F], F]:
    """--kuberay-version: the version that manifests are checked for without a cluster."""
    help_text = f"KubeRay version that the manifests are checked for{note}; {DEFAULT} by default."
    option: Callable[[F], F] = click.option("--kuberay-version", "kuberay", type=KubeRayVersion(), help=help_text)
    return option


def facts_options(function: F) -> F:
    """--model-config, --offline, --from-hub, --prices: handed over as `facts: FactSources`."""
    options = (
        click.option(
            "--model-config",
            type=click.Path(path_type=Path, allow_dash=True),
            help="The model's config.json (- for standard input) or its directory; for several models, a directory "
            "with one for each.",
        ),
        click.option("--offline", is_flag=True, help="Do not use the network to look up the model."),
        click.option(
            "--from-hub",
            is_flag=True,
            help="Look the model up in the Hugging Face cache or Hub, also if the catalog has it.",
        ),
        click.option("--prices", type=click.Path(path_type=Path, dir_okay=False), help="YAML file with GPU prices."),
    )
    return gathered(
        function,
        options,
        ("model_config", "offline", "from_hub", "prices"),
        "facts",
        lambda values: FactSources(**values),
    )
