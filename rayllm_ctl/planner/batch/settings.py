"""What the driver of a batch job is told: the contents of its settings.json. Absent means the driver's default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.plan.plan import EngineSettings, ParallelismPlan, Plan, PodSizes
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.checks.batch_files import input_format, output_format
from rayllm_ctl.planner.batch.engine_arguments import engine_kwargs
from rayllm_ctl.planner.engine.settings import DEFAULT_OUTPUT_TOKENS


def settings_of(
    batch: BatchJob,
    plan: Plan,
    engine: EngineSettings,
    parallelism: ParallelismPlan,
    pods: PodSizes,
    batch_size: int,
    batches: int,
    engine_cpus: int,
) -> dict[str, Any]:
    """The settings, with all that was planned. engine_cpus: Ray's logical CPUs of each process of the engine."""
    on_gpus = batch.accelerator.kind == "gpu"
    resource = {"GPU": 1} if on_gpus else {}
    return {
        "name": batch.name,
        "job": {"maxErrors": batch.job.max_errors, "partRows": batch.job.part_rows},
        "input": _input(batch),
        "output": _given(
            {"path": batch.output.path, "format": output_format(batch), "columns": dict(batch.output.columns)}
        ),
        "storage": _given(
            {
                "endpoint": batch.storage.endpoint,
                "region": batch.storage.region,
                "anonymous": batch.storage.anonymous or None,
            }
        ),
        "prompt": _prompt(batch),
        "sampling": _sampling(batch, engine) if batch.task == "generate" else {},
        "samplingColumns": dict(batch.sampling.columns),
        "jsonSchema": batch.sampling.json_schema,
        "task": batch.task,
        "engine": {
            "model": batch.model.path or batch.model.id,
            "modelId": batch.model.id,
            "kwargs": engine_kwargs(batch, engine, parallelism),
            "acceleratorType": plan.gpu.ray_accelerator_type if plan.gpu is not None and on_gpus else None,
            "concurrency": [batch.concurrency.min, batch.concurrency.max],
            "batchSize": batch_size,
            "maxConcurrentBatches": batches,
            "placementGroup": {
                "bundle_per_worker": {**resource, "CPU": engine_cpus, **batch.scheduling.ray_resources},
                # As for services: a replica in one pod stays on the links inside its node.
                "strategy": "STRICT_PACK" if pods.workers_per_replica == 1 else "PACK",
            },
            "loraPath": batch.model.lora_path,
            **_given({"adapter": batch.model.adapter}),
        },
    }


def _input(batch: BatchJob) -> dict[str, Any]:
    given = batch.input
    source = {"prompts": list(given.prompts)} if given.prompts else {"paths": list(given.paths)}
    options = {
        "keepEmptyLines": given.keep_empty_lines or None,
        "keyColumn": given.key_column,
        "types": dict(given.types),
    }
    return {"format": input_format(given), **source, **_given(options)}


def _prompt(batch: BatchJob) -> dict[str, Any]:
    prompt = batch.prompt
    messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
    chat = batch.task == "generate" if prompt.chat is None else prompt.chat
    texts = {"template": prompt.template, "system": prompt.system, "column": prompt.column, "messages": messages}
    kwargs = {"chatTemplateKwargs": dict(prompt.chat_template_kwargs)}
    return {**_given({**texts, **kwargs}), "chat": chat}


def _sampling(batch: BatchJob, engine: EngineSettings) -> dict[str, Any]:
    """By vLLM's names. Without a limit of its own vLLM ends an answer after 16 tokens (SamplingParams, 0.29)."""
    given = batch.sampling
    fields = {
        "max_tokens": given.max_tokens or min(DEFAULT_OUTPUT_TOKENS, max(1, engine.max_model_len // 4)),
        "temperature": given.temperature,
        "top_p": given.top_p,
        "top_k": given.top_k,
        "seed": given.seed,
        "stop": list(given.stop),
    }
    return {**_given(fields), **given.args}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not given: null, and empty lists and mappings."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}
