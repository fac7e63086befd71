"""The flags that set fields of an LLMService."""

from __future__ import annotations

import click

from rayllm_ctl.cli.option_groups import FlagTable
from rayllm_ctl.cli.storage_flags import BUCKET_ACCESS_FLAGS, STORAGE_FLAGS
from rayllm_ctl.cli.values import (
    Duration,
    KeyValue,
    ModelName,
    Quantity,
    SecretReference,
    TokenCount,
    TokenLengths,
    TolerationSpec,
    VolumeSpec,
)

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
    *STORAGE_FLAGS,
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
    *BUCKET_ACCESS_FLAGS,
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

FLAGS: dict[str, str] = {field: declaration[0] for declaration, field, _ in SERVICE_FLAGS + DEPLOY_FLAGS}
"""The flag that sets a field, for messages."""
