"""Checks of an LLMService by itself, before any model, GPU or cluster is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from rayllm_ctl.model.kube.names import did_you_mean, namespace_problem, service_name, service_name_problem
from rayllm_ctl.model.spec import several_models as severalmodels
from rayllm_ctl.model.spec.checks import access as accessfields
from rayllm_ctl.model.spec.checks import applications as applicationfields
from rayllm_ctl.model.spec.checks import environment
from rayllm_ctl.model.spec.checks import gateway as gatewayfields
from rayllm_ctl.model.spec.checks import pod_fields as podfields
from rayllm_ctl.model.spec.checks import pods as podchecks
from rayllm_ctl.model.spec.checks import ray as rayfields
from rayllm_ctl.model.spec.checks import transformers as transformersfields
from rayllm_ctl.model.spec.checks import worker_groups as groupfields
from rayllm_ctl.model.spec.checks.engine_args import (
    DTYPES,
    KV_CACHE_DTYPES,
    OWN_FIELD,
    forbidden_args,
    holds_a_credential,
)
from rayllm_ctl.model.spec.checks.mode import mode_problems
from rayllm_ctl.model.spec.checks.plain_data import any_text, is_plain_data
from rayllm_ctl.model.spec.checks.ray_features import OLDEST_RAY
from rayllm_ctl.model.spec.checks.storage.ways import storage_problems
from rayllm_ctl.model.spec.patches import patch_problems
from rayllm_ctl.model.spec.serve_options import serve_problems
from rayllm_ctl.model.spec.service import NO_MODEL, Aggregation, LLMService, Load, Replicas
from rayllm_ctl.model.text.lengths import average, parse_lengths
from rayllm_ctl.model.text.patterns import ADAPTER_STORE, IMAGE, LABEL_VALUE, MODEL_ID, QUANTIZATION, REVISION, VERSION
from rayllm_ctl.model.text.problems import Path, Problem, quoted

MOST_REQUESTS = 1_000_000
"""Per second: with more, the replicas would exceed what Kubernetes counts."""

MOST_ACCEPTED = 1000
"""Tokens of a step: more than any method guesses ahead."""


def validate(service: LLMService) -> list[Problem]:
    """All that is wrong with `service`, in the order of the spec file; empty if it is valid."""
    return [
        *_metadata(service),
        *severalmodels.shared_problems(service, _of_one_model),
        *(_of_one_model(service) if service.model is not NO_MODEL else _engine(service)),
        *transformersfields.version_problems(service),
        *mode_problems(service),
        *podfields.pod_field_problems(service),
        *storage_problems(service),
        *serve_problems(service.serve),
        *gatewayfields.gateway_problems(service),
        *podchecks.pod_problems(service),
        *groupfields.worker_group_problems(service),
        *applicationfields.application_problems(service),
        *accessfields.access_problems(service),
        *rayfields.ray_problems(service),
        *patch_problems(service.patches),
        *_render_version(service.render_version),
    ]


def _of_one_model(service: LLMService) -> Iterator[Problem]:
    yield from _model(service)
    yield from _engine(service)
    yield from transformersfields.transformers_problems(service)
    yield from _placement(service)
    yield from _replicas(service.replicas)
    yield from _load(service.load, service.engine.args)


def _metadata(service: LLMService) -> Iterator[Problem]:
    problem = service_name_problem(service.name)
    if problem:
        suggestion = service_name(service.name)
        yield Problem(
            ("metadata", "name"), f"{quoted(service.name)} is not a valid name: {problem}", f"for example {suggestion}"
        )
    if service.namespace is not None and (problem := namespace_problem(service.namespace)):
        yield Problem(("metadata", "namespace"), f"{quoted(service.namespace)} is not a valid namespace: {problem}")


def _render_version(word: str | None) -> Iterator[Problem]:
    if word is not None and not (word and LABEL_VALUE.fullmatch(word)):
        yield Problem(
            ("spec", "renderVersion"),
            f"{quoted(word)} is not a valid word: at most 63 letters, digits, '-', '_' and '.', with a letter or digit "
            "at both ends",
            "any word that differs from the last one, such as a version or a date",
        )


def _model(service: LLMService) -> Iterator[Problem]:
    model = service.model
    if not MODEL_ID.fullmatch(model.id):
        hint = "set a directory in spec.model.path (--model-path); the id is then any name" if "/" in model.id else ""
        stripped = model.id.strip()
        hint = f"without the spaces around it: {stripped}" if MODEL_ID.fullmatch(stripped) else hint
        yield Problem(
            ("spec", "model", "id"),
            f"{quoted(model.id)} is not a valid model name, such as qwen3 or Qwen/Qwen3-32B",
            hint,
        )
    if model.path is not None and not podfields.is_absolute(model.path):
        yield Problem(("spec", "model", "path"), f"{quoted(model.path)} is not an absolute path of a directory")
    if model.revision is not None and model.path is not None:
        yield Problem(
            ("spec", "model", "revision"),
            "cannot be combined with spec.model.path: only the Hugging Face Hub has revisions",
        )
    elif model.revision is not None and not REVISION.fullmatch(model.revision):
        yield Problem(("spec", "model", "revision"), f"{quoted(model.revision)} is not a valid branch, tag or commit")
    secret = model.token_secret
    if secret is not None and not (podfields.is_object_name(secret.name) and podfields.is_data_key(secret.key)):
        # Not repeated: somebody may have written the token itself.
        yield Problem(
            ("spec", "model", "tokenSecret"),
            "expected the name of a Secret and one of its keys, not the token itself",
            "kubectl create secret generic hf-token --from-file=token=FILE",
        )
    yield from _adapters(service)


def _adapters(service: LLMService) -> Iterator[Problem]:
    at: Path = ("spec", "model", "adapters")
    if service.model.adapters and service.mode == "raycluster":
        yield Problem(at, "requires mode rayservice", "spec.engine.args.lora_modules")
    if service.model.adapters and service.engine.args.keys() & {"enable_lora", "lora_modules"}:
        yield Problem(("spec", "engine", "args"), "enable_lora and lora_modules are set by spec.model.adapters")
    ids = {service.model.id}
    for index, adapter in enumerate(service.model.adapters):
        if not MODEL_ID.fullmatch(adapter.id):
            yield Problem((*at, index, "id"), f"{quoted(adapter.id)} is not a valid model name, such as qwen3-legal")
        elif adapter.id in ids:
            yield Problem((*at, index, "id"), f"{quoted(adapter.id)} is the id of another adapter or of the model")
        ids.add(adapter.id)
        if not podfields.is_absolute(adapter.path) and not ADAPTER_STORE.fullmatch(adapter.path):
            yield Problem(
                (*at, index, "path"),
                f"{quoted(adapter.path)} is neither an absolute path of a directory nor a folder of an object store, "
                "such as s3://bucket/adapter",
            )


def _engine(service: LLMService) -> Iterator[Problem]:
    at = ("spec", "engine")
    engine, kind = service.engine, service.accelerator.kind
    if engine.image is not None and not IMAGE.fullmatch(engine.image):
        yield Problem((*at, "image"), "not a valid image reference, such as rayproject/ray-llm:2.60.0-py312-cu130")
    for name, version in (("vllmVersion", engine.vllm_version), ("rayVersion", engine.ray_version)):
        if version is not None and not VERSION.fullmatch(version):
            yield Problem((*at, name), f"{quoted(version)} is not a valid version, such as 0.29.0")
        elif version is not None and name == "rayVersion" and _release(version) < OLDEST_RAY:
            oldest = ".".join(str(number) for number in OLDEST_RAY)
            yield Problem((*at, name), f"Ray {version} is not supported (requires {oldest} or newer)")
    for name, number in (
        ("maxModelLen", engine.max_model_len),
        ("maxNumSeqs", engine.max_num_seqs),
        ("maxNumBatchedTokens", engine.max_num_batched_tokens),
    ):
        yield from _at_least((*at, name), number, 1)
    instead = "--quantization fp8, or spec.engine.quantization: fp8" if engine.dtype == "fp8" else ""
    yield from _known((*at, "dtype"), engine.dtype, DTYPES, instead)
    yield from _known((*at, "kvCacheDtype"), engine.kv_cache_dtype, KV_CACHE_DTYPES)
    if engine.quantization is not None and not QUANTIZATION.fullmatch(engine.quantization):
        yield Problem(
            (*at, "quantization"),
            f"{quoted(engine.quantization)} is not a valid quantization method, such as fp8 or awq",
        )
    share = engine.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        yield Problem((*at, "gpuMemoryUtilization"), f"must be greater than 0 and at most 1, not {share}")
    if share is not None and kind == "cpu":
        yield Problem((*at, "gpuMemoryUtilization"), "does not apply to CPU services")
    seqs, batch = engine.max_num_seqs, engine.max_num_batched_tokens
    if seqs is not None and batch is not None and 1 <= batch < seqs:
        yield Problem(
            (*at, "maxNumBatchedTokens"),
            f"{batch} is less than spec.engine.maxNumSeqs ({seqs})",
        )
    for name, value in engine.args.items():
        yield from _argument(name, value, forbidden_args(service.mode))
    for name, text in engine.env.items():
        yield from _variable(name, text)


def _argument(name: str, value: Any, forbidden: Mapping[str, str]) -> Iterator[Problem]:
    at = ("spec", "engine", "args", name)
    python_name = name.lstrip("-").replace("-", "_")
    if python_name in OWN_FIELD:
        field, flag = OWN_FIELD[python_name]
        yield Problem(at, "has a field of its own", f"{field}, or {flag}")
    elif python_name in forbidden:
        yield Problem(at, f"cannot be set: {forbidden[python_name]}")
    elif not python_name.isidentifier() or python_name != python_name.lower():
        yield Problem(at, "not a valid engine argument name")
    elif python_name != name:
        yield Problem(at, "must be the Python name of the argument", python_name)
    elif not is_plain_data(value):
        yield Problem(at, "the value has no form in JSON: it contains a number that is not finite or a lone surrogate")
    elif any_text(value, holds_a_credential):
        yield Problem(at, "the value looks like a credential; anyone who can read the RayService could read it")


def _variable(name: str, value: str) -> Iterator[Problem]:
    at = ("spec", "engine", "env", name)
    yield from list(environment.name_problems(at, name)) or environment.value_problems(
        at,
        name,
        value,
        "put it in a Secret: spec.pods.worker.env[].valueFrom.secretKeyRef, or --volume secret:NAME:/PATH",
    )


def _placement(service: LLMService) -> Iterator[Problem]:
    cpu = service.accelerator.kind == "cpu"
    if cpu and service.accelerator.gpu is not None:
        yield Problem(
            ("spec", "accelerator", "gpu"),
            "does not apply to CPU services",
            "remove kind: cpu (--accelerator cpu), or the GPU",
        )
    yield from _at_least(("spec", "parallelism", "tensor"), service.parallelism.tensor, 1)
    yield from _at_least(("spec", "parallelism", "pipeline"), service.parallelism.pipeline, 1)
    if service.parallelism.across_nodes and (cpu or service.parallelism.tensor is None):
        yield Problem(
            ("spec", "parallelism", "acrossNodes"),
            "does not apply to CPU services" if cpu else "requires spec.parallelism.tensor",
            "" if cpu else "set spec.parallelism.tensor, or --tp N",
        )
    if cpu and (service.parallelism.pipeline or 1) > 1:
        yield Problem(("spec", "parallelism", "pipeline"), "must be 1 for CPU services: a replica is one pod")


def _replicas(replicas: Replicas) -> Iterator[Problem]:
    at = ("spec", "replicas")
    if replicas.count is not None:
        yield from _count((*at, "count"), replicas)
    else:
        yield from _at_least((*at, "min"), replicas.min, 0)
        yield from _at_least((*at, "max"), replicas.max, 1)
    if replicas.count is None and replicas.min > replicas.max >= 1:
        yield Problem((*at, "min"), f"{replicas.min} is greater than spec.replicas.max ({replicas.max})")
    yield from _at_least((*at, "targetOngoingRequests"), replicas.target_ongoing_requests, 1)
    yield from _amount((*at, "upscaleDelay"), replicas.upscale_delay, zero=True)
    yield from _amount((*at, "downscaleDelay"), replicas.downscale_delay, zero=True)
    yield from _amount((*at, "lookBackPeriod"), replicas.look_back_period)
    if replicas.initial is not None and not replicas.min <= replicas.initial <= max(replicas.min, replicas.max):
        yield Problem(
            (*at, "initial"),
            f"{replicas.initial} is not between spec.replicas.min ({replicas.min}) and max ({replicas.max})",
        )
    yield from _amount((*at, "downscaleToZeroDelay"), replicas.downscale_to_zero_delay, zero=True)
    if replicas.downscale_to_zero_delay is not None and replicas.min > 0:
        yield Problem((*at, "downscaleToZeroDelay"), "has no effect unless spec.replicas.min is 0")
    yield from _amount((*at, "metricsInterval"), replicas.metrics_interval)
    interval, period = replicas.metrics_interval, replicas.look_back_period
    if interval is not None and period is not None and interval >= period:
        yield Problem((*at, "metricsInterval"), f"must be less than spec.replicas.lookBackPeriod ({period:g}s)")
    yield from _amount((*at, "upscalingFactor"), replicas.upscaling_factor)
    yield from _amount((*at, "downscalingFactor"), replicas.downscaling_factor)
    yield from _known((*at, "aggregationFunction"), replicas.aggregation_function, get_args(Aggregation))


def _count(at: Path, replicas: Replicas) -> Iterator[Problem]:
    if replicas.count == 0:
        yield Problem(
            at, "must be at least 1, not 0", "spec.suspend: true stops a service; min: 0 with max stops it when idle"
        )
    else:
        yield from _at_least(at, replicas.count, 1)
    if not replicas.min == replicas.max == replicas.count:
        yield Problem(at, "cannot be combined with other values of spec.replicas.min and max")


def _load(load: Load, args: Mapping[str, Any]) -> Iterator[Problem]:
    at = ("spec", "load")
    yield from _known((*at, "objective"), load.objective, ("cost", "throughput", "latency"))
    yield from _at_least((*at, "concurrency"), load.concurrency, 1)
    yield from length_problems((*at, "inputTokens"), load.input_tokens)
    yield from length_problems((*at, "outputTokens"), load.output_tokens)
    for name, amount in (("ttft", load.ttft), ("tpot", load.tpot), ("rate", load.rate)):
        yield from _amount((*at, name), amount, most=MOST_REQUESTS if name == "rate" else 2**31 - 1)
    if load.cached_tokens is not None:
        yield from _cached((*at, "cachedTokens"), load, args)
    if load.accepted_tokens is not None:
        yield from _accepted((*at, "acceptedTokens"), load.accepted_tokens, args)
    if load.calibration is not None and "\0" in load.calibration:
        yield Problem((*at, "calibration"), f"{quoted(load.calibration)} is not a path")


def length_problems(at: Path, lengths: int | str | None) -> Iterator[Problem]:
    """What is wrong with a number of tokens or their distribution."""
    if not isinstance(lengths, str):
        yield from _at_least(at, lengths, 1)
        return
    try:
        parse_lengths(lengths)
    except ValueError as error:
        yield Problem(at, f"{quoted(lengths)}: {error}")


def _cached(at: Path, load: Load, args: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _at_least(at, load.cached_tokens, 0)
    if load.input_tokens is None:
        yield Problem(at, "requires spec.load.inputTokens (--input-tokens)")
    elif (mean := _mean(load.input_tokens)) and load.cached_tokens is not None and load.cached_tokens >= mean:
        yield Problem(at, f"must be less than spec.load.inputTokens ({mean}): the last token is always computed")
    if args.get("enable_prefix_caching") is False:
        yield Problem(at, "has no effect: enable_prefix_caching is false in spec.engine.args")


def _mean(lengths: int | str) -> int:
    """0 if that is reported elsewhere."""
    return 0 if any(length_problems((), lengths)) else average(lengths) or 0


def _accepted(at: Path, tokens: float, args: Mapping[str, Any]) -> Iterator[Problem]:
    if not 1 <= tokens <= MOST_ACCEPTED:
        yield Problem(at, f"must be from 1 to {MOST_ACCEPTED}, not {tokens}: every step adds at least one token")
    if "speculative_config" not in args:
        yield Problem(at, "has no effect without speculative_config in spec.engine.args")


def _at_least(path: Path, number: int | None, least: int) -> Iterator[Problem]:
    if number is not None and number < least:
        yield Problem(path, f"must be at least {least}, not {number}")
    elif number is not None and number >= 2**31:
        yield Problem(path, f"must be less than 2147483648, not {number}")


def _amount(path: Path, number: float | None, *, zero: bool = False, most: float = 2**31 - 1) -> Iterator[Problem]:
    if number is None:
        return
    if number > most:
        yield Problem(path, f"must be at most {most}, not {number:g}")
    elif not (number > 0 or (zero and number == 0)):
        yield Problem(path, f"must be {'at least' if zero else 'greater than'} 0, not {number}")


def _known(path: Path, word: str | None, words: Iterable[str], instead: str = "") -> Iterator[Problem]:
    """instead: a hint that precedes that at the nearest word."""
    if word is not None and word not in words:
        hint = instead or did_you_mean(word, words)
        yield Problem(path, f"{quoted(word)} is not supported (supported values: {', '.join(words)})", hint)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int("".join(itertools.takewhile(str.isdigit, minor)))
