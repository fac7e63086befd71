"""The flags of a BatchJob."""

from __future__ import annotations

from typing import get_args

import click

from rayllm_ctl.cli.option_groups import FlagTable
from rayllm_ctl.cli.spec_flags import DEPLOY_FLAGS, SERVICE_FLAGS
from rayllm_ctl.cli.storage_flags import STORAGE_FIELDS
from rayllm_ctl.cli.values import Duration, KeyValue, ModelName
from rayllm_ctl.model.spec.batch import InputFormat, OutputFormat, Task

ENGINE_FIELDS = (
    "accelerator.gpu", "accelerator.kind", "parallelism.tensor", "parallelism.pipeline", "parallelism.across_nodes",
    "engine.max_model_len", "engine.dtype", "engine.quantization", "engine.kv_cache_dtype",
    "engine.gpu_memory_utilization", "engine.max_num_seqs", "engine.max_num_batched_tokens", "engine.vllm_version",
    "engine.args", "model.revision", "load.input_tokens", "load.output_tokens", "engine.image", "model.path",
    "storage.volumes", "model.token_secret", "engine.env", "resources.worker.cpu", "resources.worker.memory",
    "scheduling.node_selector", "scheduling.tolerations", "security.pod_security", *STORAGE_FIELDS,
)  # fmt: skip
"""Fields of the engine and its pods, with the same flags as those of a service."""

_OWN: FlagTable = (
    (
        ("--model",),
        "model.id",
        {"type": ModelName(), "metavar": "NAME", "help": "Same as MODEL; or any name with --model-path."},
    ),
    (
        ("--lora-path",),
        "model.lora_path",
        {"metavar": "PATH", "help": "Folder of LoRA adapters, in the pods or an object store."},
    ),
    (
        ("--adapter",),
        "model.adapter",
        {"metavar": "NAME", "help": "LoRA adapter in --lora-path that answers every row."},
    ),
    (("--name",), "name", {"metavar": "NAME", "help": "Name of the job; derived from model and data by default."}),
    (
        ("--input",),
        "input.paths",
        {
            "multiple": True,
            "metavar": "PATH",
            "help": "File, folder or glob in the pods or an object store; - reads a prompt per line. Can be repeated.",
        },
    ),
    (
        ("--prompt-text",),
        "input.prompts",
        {"multiple": True, "metavar": "TEXT", "help": "A prompt, instead of --input. Can be repeated."},
    ),
    (
        ("--input-format",),
        "input.format",
        {"type": click.Choice(get_args(InputFormat)), "help": "Format of the input; from its extension by default."},
    ),
    (("--key-column",), "input.key_column", {"metavar": "COLUMN", "help": "Column that identifies rows."}),
    (
        ("--output-path",),
        "output.path",
        {"metavar": "PATH", "help": "Folder for the answers, on a volume or in an object store."},
    ),
    (
        ("--output-format",),
        "output.format",
        {"type": click.Choice(get_args(OutputFormat)), "help": "Format of the answers; parquet by default."},
    ),
    (
        ("--rename",),
        "output.columns",
        {
            "type": KeyValue(),
            "multiple": True,
            "metavar": "COLUMN=NAME",
            "help": "Other name for an added column: answer=summary. Can be repeated.",
        },
    ),
    (
        ("--prompt",),
        "prompt.template",
        {"metavar": "TEMPLATE", "help": "Jinja template over the columns: 'Summarize: {{ text }}'."},
    ),
    (("--prompt-column",), "prompt.column", {"metavar": "COLUMN", "help": "Column that contains the prompt."}),
    (("--system",), "prompt.system", {"metavar": "TEMPLATE", "help": "System prompt, a template as well."}),
    (
        ("--task",),
        "task",
        {"type": click.Choice(get_args(Task)), "help": "Task to run on each row; generate by default."},
    ),
    (("--max-tokens",), "sampling.max_tokens", {"type": int, "help": "Maximum number of tokens of an answer."}),
    (("--temperature",), "sampling.temperature", {"type": float, "help": "Randomness of the answers."}),
    (
        ("--sampling-arg",),
        "sampling.args",
        {
            "type": KeyValue(typed=True),
            "multiple": True,
            "metavar": "KEY=VALUE",
            "help": "Further sampling parameter by its vLLM name. Can be repeated.",
        },
    ),
    (
        ("--concurrency",),
        "concurrency.max",
        {"type": int, "metavar": "N", "help": "Maximum number of replicas of the engine; 1 by default."},
    ),
    (
        ("--min-concurrency",),
        "concurrency.min",
        {"type": int, "metavar": "N", "help": "Number of replicas at the start; 1 by default."},
    ),
    (("--rows",), "load.rows", {"type": int, "metavar": "N", "help": "Number of rows, to plan time and cost for."}),
    (
        ("--max-errors",),
        "job.max_errors",
        {"type": int, "metavar": "N", "help": "Number of rows with an error up to which the job succeeds."},
    ),
    (
        ("--deadline",),
        "job.deadline",
        {"type": Duration(), "help": "Maximum run time; the job is stopped when it is reached."},
    ),
    (
        ("--cluster",),
        "cluster",
        {"metavar": "NAME", "help": "Existing RayCluster to run on, instead of a RayCluster for this job."},
    ),
    (("--s3-endpoint",), "storage.endpoint", {"metavar": "URL", "help": "Address of a self-hosted S3 service."}),
    (("--s3-region",), "storage.region", {"metavar": "REGION", "help": "Region of the buckets."}),
    (
        ("--s3-anonymous",),
        "storage.anonymous",
        {"is_flag": True, "default": None, "help": "Read public buckets without credentials."},
    ),
    (
        ("--s3-secret",),
        "storage.credentials_secret",
        {"metavar": "NAME", "help": "Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."},
    ),
)

BATCH_TABLE: FlagTable = (*_OWN, *(line for line in (*SERVICE_FLAGS, *DEPLOY_FLAGS) if line[1] in ENGINE_FIELDS))

BATCH_FLAGS: dict[str, str] = {field: declaration[0] for declaration, field, _ in BATCH_TABLE}
"""The flag that sets a field of a BatchJob, for messages."""
