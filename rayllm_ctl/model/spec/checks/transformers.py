"""Checks of a model's engine settings: those of the other engine are rejected."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.spec.checks.pod_fields import memory
from rayllm_ctl.model.spec.service import LLMService, Parallelism
from rayllm_ctl.model.spec.transformers import MOST_GPUS, QUANTIZATIONS, TransformersOptions
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_AT: Path = ("spec", "engine")
_NOT = "does not apply to engine kind transformers"
"""Memory is rendered in whole MiB."""

_OF_VLLM = (
    ("kv_cache_dtype", "kvCacheDtype", "whose cache has the data type of the model", "spec.engine.dtype (--dtype)"),
    (
        "gpu_memory_utilization",
        "gpuMemoryUtilization",
        "which reserves no share of a GPU",
        "spec.engine.transformers.maxMemoryPerGPU limits the weights on each GPU",
    ),
    (
        "max_num_batched_tokens",
        "maxNumBatchedTokens",
        "which has no limit of tokens per step",
        "spec.engine.maxNumSeqs (--max-num-seqs) limits the requests of a batch",
    ),
)
"""Settings of vLLM that Transformers lacks: attribute, key, why, and what to set instead."""


def transformers_problems(service: LLMService) -> Iterator[Problem]:
    """Problems of the engine of one model."""
    if service.engine.kind == "vllm":
        yield from _on_vllm(service)
        return
    if service.mode == "raycluster":
        yield Problem(
            (*_AT, "kind"),
            "transformers requires mode rayservice: mode raycluster runs vLLM's own server",
            "--kind rayservice",
        )
    yield from _only_vllm(service)
    wanted = service.engine.quantization
    if wanted is not None and wanted not in QUANTIZATIONS:
        close = nearest(wanted, QUANTIZATIONS) or QUANTIZATIONS[0]
        yield Problem(
            (*_AT, "quantization"),
            f"{quoted(wanted)} is not supported by engine kind transformers "
            f"(supported values: {', '.join(QUANTIZATIONS)})",
            f"for example {close}",
        )
    elif wanted is not None and service.accelerator.kind == "cpu":
        yield Problem((*_AT, "quantization"), f"{quoted(wanted)} does not apply to CPU services", "remove it")
    if service.engine.transformers is not None:
        yield from _options(service, service.engine.transformers)


def version_problems(service: LLMService) -> Iterator[Problem]:
    """vllmVersion, where no model of the service runs on vLLM."""
    kinds = {entry.engine.kind for entry in service.models} or {service.engine.kind}
    if kinds == {"transformers"} and service.engine.vllm_version is not None:
        yield Problem((*_AT, "vllmVersion"), _NOT, "spec.engine.rayVersion, or spec.engine.image (--image)")


def _on_vllm(service: LLMService) -> Iterator[Problem]:
    remedy = "spec.engine.kind: transformers (--engine transformers)"
    if service.engine.transformers is not None:
        yield Problem((*_AT, "transformers"), "requires engine kind transformers", remedy)
    if service.engine.quantization in QUANTIZATIONS:
        yield Problem(
            (*_AT, "quantization"),
            f"{quoted(service.engine.quantization)} requires engine kind transformers",
            f"{remedy}, or quantization: bitsandbytes for vLLM",
        )


def _only_vllm(service: LLMService) -> Iterator[Problem]:
    engine = service.engine
    for attribute, key, why, instead in _OF_VLLM:
        if getattr(engine, attribute) is not None:
            yield Problem((*_AT, key), f"{_NOT}, {why}", instead)
    if engine.args:
        yield Problem(
            (*_AT, "args"),
            f"{_NOT}: they are arguments of vLLM",
            "remove them; what the engine takes is in spec.engine and spec.engine.transformers",
        )
    for field in dataclasses.fields(Parallelism):
        if getattr(service.parallelism, field.name) != field.default:
            key = {"across_nodes": "acrossNodes"}.get(field.name, field.name)
            yield Problem(
                ("spec", "parallelism", key),
                f"{_NOT}, which spreads whole layers over the GPUs of one pod",
                "spec.engine.transformers.gpus: N",
            )
    if service.model.adapters:
        yield Problem(
            ("spec", "model", "adapters"),
            f"{_NOT}",
            "spec.engine.kind: vllm, or a model into which the adapter was merged (spec.model.path)",
        )


def _options(service: LLMService, options: TransformersOptions) -> Iterator[Problem]:
    at: Path = (*_AT, "transformers")
    sizes = (("maxMemoryPerGPU", options.max_memory_per_gpu), ("cpuMemory", options.cpu_memory))
    if service.accelerator.kind == "cpu":
        for name, value in (("gpus", options.gpus), *sizes):
            if value is not None:
                yield Problem((*at, name), "does not apply to CPU services, which have no GPUs", "remove it")
        return
    if options.gpus is not None and not 1 <= options.gpus <= MOST_GPUS:
        yield Problem((*at, "gpus"), f"must be at least 1 and at most {MOST_GPUS}, not {options.gpus}")
    for name, value in sizes:
        yield from memory((*at, name), value)
    if options.cpu_memory is not None and service.engine.quantization is not None:
        yield Problem(
            (*at, "cpuMemory"),
            "cannot be combined with spec.engine.quantization: bitsandbytes holds quantized layers on GPUs only",
            "remove one of them",
        )
