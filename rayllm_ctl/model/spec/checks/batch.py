"""Checks of a BatchJob by itself, before any model, file or cluster is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.spec.batch import (
    SETTINGS_PATH,
    SETTINGS_VOLUME,
    BatchJob,
    BatchResources,
    Concurrency,
    Job,
    Sampling,
)
from rayllm_ctl.model.spec.batch_service import service_of
from rayllm_ctl.model.spec.checks import pod_fields as podfields
from rayllm_ctl.model.spec.checks.batch_adapters import adapter_problems
from rayllm_ctl.model.spec.checks.batch_files import file_problems
from rayllm_ctl.model.spec.checks.plain_data import is_plain_data
from rayllm_ctl.model.spec.checks.ray import whole_seconds
from rayllm_ctl.model.spec.checks.service import length_problems, validate
from rayllm_ctl.model.spec.checks.storage.served import streamed_bucket
from rayllm_ctl.model.spec.gateway import SERVING_PATH
from rayllm_ctl.model.spec.pod_options import Pods
from rayllm_ctl.model.spec.ray_options import RayOptions
from rayllm_ctl.model.spec.service import Scheduling
from rayllm_ctl.model.text.patterns import ENDPOINT, Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

PARAMETER = Pattern(r"[a-z][a-z0-9_]*")

_FORBIDDEN_ARGS = {
    "distributed_executor_backend": "Ray Data LLM chooses it: uni for one process, ray for several, mp on CPUs",
    "enable_lora": "is set by spec.model.loraPath",
    "task_type": "is set by spec.task",
}

SAMPLING_FIELDS = {
    "max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed",
    "stop": "stop", "structured_outputs": "jsonSchema", "guided_decoding": "jsonSchema",
}  # fmt: skip
"""Sampling parameters with a field of their own."""

ONE_ANSWER = ("n", "best_of")
"""Those of which 1 says what a batch job does anyway; the driver leaves them out."""

NO_COLUMN = ("logprobs", "prompt_logprobs", "stream", "output_kind")
"""Sampling parameters for what the output has no column for. The driver rejects the same ones
(rayllm_ctl/serving/batch/inference/sampling.py)."""


def validate_batch(batch: BatchJob) -> list[Problem]:
    """All that is wrong with `batch`; empty if it is valid."""
    # What the service must not have is reported here, in the words of a batch job.
    args = {name: value for name, value in batch.engine.args.items() if name not in _FORBIDDEN_ARGS}
    comparable = replace(batch, engine=replace(batch.engine, kind="vllm", args=args))
    return [
        *validate(service_of(_with_valid_load(comparable))),
        *_engine(batch),
        *adapter_problems(batch),
        *file_problems(batch),
        *_sampling(batch),
        *_concurrency(batch.concurrency),
        *_job(batch.job),
        *_load(batch),
        *_storage(batch),
        *(_on_a_pool(batch) if batch.cluster is not None else ()),
    ]


def _with_valid_load(batch: BatchJob) -> BatchJob:
    """Without what `_load` and `_sampling` report."""
    return replace(batch, load=replace(batch.load, input_tokens=None, output_tokens=1))


def _engine(batch: BatchJob) -> Iterator[Problem]:
    if batch.engine.kind != "vllm":
        yield Problem(("spec", "engine", "kind"), f"{quoted(batch.engine.kind)} is not supported: batch jobs run vLLM")
    for name in batch.engine.args:
        if name in _FORBIDDEN_ARGS:
            yield Problem(("spec", "engine", "args", name), f"cannot be set: {_FORBIDDEN_ARGS[name]}")


def _sampling(batch: BatchJob) -> Iterator[Problem]:
    at: Path = ("spec", "sampling")
    given = batch.sampling
    if batch.task != "generate" and given != Sampling():
        yield Problem(at, f"does not apply to task {batch.task}, which generates no text")
        return
    yield from _at_least((*at, "maxTokens"), given.max_tokens, 1)
    yield from _between((*at, "temperature"), given.temperature, 0, 100)
    if given.top_p is not None and not 0 < given.top_p <= 1:
        yield Problem((*at, "topP"), f"must be greater than 0 and at most 1, not {given.top_p}")
    if given.top_k is not None and not -1 <= given.top_k < 2**31:
        yield Problem((*at, "topK"), f"must be from 1 to {2**31 - 1}, or 0 or -1 for no limit, not {given.top_k}")
    yield from _between((*at, "seed"), given.seed, -(2**63), 2**63 - 1)
    for name, value in (("args", given.args), ("columns", given.columns)):
        for parameter in value:
            here = (*at, name, parameter)
            if not PARAMETER.fullmatch(parameter):
                yield Problem(here, "not a valid name of a sampling parameter")
            elif name == "args" and parameter in SAMPLING_FIELDS:
                yield Problem(here, "has a field of its own", f"spec.sampling.{SAMPLING_FIELDS[parameter]}")
            elif parameter in ONE_ANSWER and (name == "columns" or value[parameter] != 1):
                yield Problem(here, "is not supported: there is one answer per row", "a row for each answer")
            elif parameter in NO_COLUMN:
                yield Problem(here, "is not supported in a batch job: the output has no column for it", "remove it")
    for parameter, column in given.columns.items():
        if not column:
            yield Problem((*at, "columns", parameter), "must be the name of a column")
        if parameter in given.args:
            yield Problem((*at, "columns", parameter), "is also set by spec.sampling.args")
    for name, data in (("args", given.args), ("jsonSchema", given.json_schema)):
        if not is_plain_data(data):
            yield Problem((*at, name), "has no form in JSON: it contains a number that is not finite or such text")


def _concurrency(concurrency: Concurrency) -> Iterator[Problem]:
    at: Path = ("spec", "concurrency")
    yield from _at_least((*at, "min"), concurrency.min, 1)
    yield from _at_least((*at, "max"), concurrency.max, 1)
    if concurrency.min > concurrency.max >= 1:
        yield Problem((*at, "min"), f"{concurrency.min} is greater than spec.concurrency.max ({concurrency.max})")


def _job(job: Job) -> Iterator[Problem]:
    at: Path = ("spec", "job")
    yield from _at_least((*at, "maxErrors"), job.max_errors, 0)
    yield from _at_least((*at, "partRows"), job.part_rows, 1)
    yield from _at_least((*at, "batchSize"), job.batch_size, 1)
    yield from _at_least((*at, "retries"), job.retries, 0)
    yield from whole_seconds((*at, "deadline"), job.deadline, least=1)
    yield from whole_seconds((*at, "keepAfter"), job.keep_after, least=0)


def _load(batch: BatchJob) -> Iterator[Problem]:
    at: Path = ("spec", "load")
    yield from _at_least((*at, "rows"), batch.load.rows, 1)
    yield from length_problems((*at, "inputTokens"), batch.load.input_tokens)
    yield from length_problems((*at, "outputTokens"), batch.load.output_tokens)
    prompts = batch.input.prompts
    if prompts and batch.load.rows is not None:
        yield Problem((*at, "rows"), f"is known: spec.input.prompts has {len(prompts)}")


def _storage(batch: BatchJob) -> Iterator[Problem]:
    at: Path = ("spec", "storage")
    storage = batch.storage
    if storage.endpoint is not None and not ENDPOINT.fullmatch(storage.endpoint):
        # Not repeated: the address may contain credentials.
        yield Problem((*at, "endpoint"), "is not a valid address, such as http://minio:9000 (without credentials)")
    if storage.credentials_secret is not None and not podfields.is_object_name(storage.credentials_secret):
        # Not repeated: somebody may have written a key itself.
        yield Problem(
            (*at, "credentialsSecret"),
            "expected the name of a Secret: lower-case letters, digits, '-' and '.'",
            "kubectl create secret generic s3 --from-env-file=FILE    # with AWS_ACCESS_KEY_ID=... in FILE",
        )
    if storage.anonymous and storage.credentials_secret is not None:
        yield Problem((*at, "anonymous"), "cannot be combined with spec.storage.credentialsSecret")
    if storage.anonymous and batch.output.path.startswith(("s3://", "gs://")):
        yield Problem(
            (*at, "anonymous"),
            "cannot be combined with an output in an object store, which takes credentials to write",
            "spec.storage.credentialsSecret for S3, or an output on a volume",
        )
    for index, volume in enumerate(storage.volumes):
        if volume.name in (SETTINGS_VOLUME, "serving"):
            yield Problem((*at, "volumes", index, "name"), f"{quoted(volume.name)} is reserved for the job's own files")
        if volume.mount_path.rstrip("/") in (SETTINGS_PATH, SERVING_PATH):
            yield Problem((*at, "volumes", index, "mountPath"), "is reserved for the job's own files")
    read = (*batch.input.paths, batch.model.lora_path or "")
    if not any(path.startswith("s3://") for path in (*read, batch.output.path)):
        for name in ("endpoint", "region"):
            if getattr(storage, name) is not None:
                yield Problem((*at, name), "has no effect: neither the input nor the output is on S3")
    if storage.anonymous and not any(path.startswith(("s3://", "gs://")) for path in read):
        yield Problem((*at, "anonymous"), "has no effect: the input is not in an object store")
    yield from _beside_streamed_weights(batch, any(path.startswith("s3://") for path in (*read, batch.output.path)))


def _beside_streamed_weights(batch: BatchJob, on_s3: bool) -> Iterator[Problem]:
    """Access to the data that differs from that to the weights. on_s3: whether input or output is on S3."""
    storage = service_of(batch).storage
    bucket = streamed_bucket(storage)
    if bucket is None or not on_s3 or not bucket.uri.startswith("s3://"):
        return
    pairs = [("endpoint", batch.storage.endpoint, bucket.endpoint)]
    if bucket.secret is not None:
        pairs.append(("credentialsSecret", batch.storage.credentials_secret, bucket.secret))
    for name, of_data, of_weights in pairs:
        if of_data != of_weights:
            yield Problem(
                ("spec", "storage", name),
                "must be that of the bucket from which the weights are streamed: the pods have one for all of S3",
                "load: copy, which has settings of its own",
            )


def _on_a_pool(batch: BatchJob) -> Iterator[Problem]:
    """Fields that do not apply to the pods of an existing RayCluster."""
    cluster = batch.cluster or ""
    if len(cluster) > 253 or not podfields.is_object_name(cluster):
        yield Problem(("spec", "cluster"), f"{quoted(cluster)} is not a valid name of a RayCluster")
    if batch.accelerator.kind == "gpu" and batch.accelerator.gpu is None:
        yield Problem(
            ("spec", "accelerator", "gpu"),
            "required with spec.cluster: the GPU type of its workers",
            "kubectl get nodes -L nvidia.com/gpu.product; rayllm-ctl gpus",
        )
    given: dict[Path, bool] = {
        ("storage", "volumes"): bool(batch.storage.volumes),
        ("storage", "model"): batch.storage.model is not None,
        ("storage", "caches"): batch.storage.caches is not None,
        ("storage", "credentialsSecret"): batch.storage.credentials_secret is not None,
        ("model", "tokenSecret"): batch.model.token_secret is not None,
        ("scheduling",): batch.scheduling != Scheduling(),
        ("resources",): batch.resources != BatchResources(),
        ("pods",): batch.pods != Pods(),
        ("ray",): batch.ray != RayOptions(),
        ("engine", "env"): bool(batch.engine.env),
        ("engine", "servingCode"): batch.engine.serving_code != "mounted",
        ("job", "keepAfter"): batch.job.keep_after != Job().keep_after,
    }
    for path, is_given in given.items():
        if is_given:
            yield Problem(
                ("spec", *path),
                "does not apply with spec.cluster: the pods of that RayCluster are as they are",
                "set it on the RayCluster, or leave out spec.cluster",
            )
    if batch.suspend:
        yield Problem(
            ("spec", "suspend"),
            "cannot be combined with spec.cluster: KubeRay suspends a job by deleting its Ray cluster",
        )
    if batch.job.retries:
        yield Problem(
            ("spec", "job", "retries"),
            "must be 0 with spec.cluster: KubeRay retries a job on a new Ray cluster only",
        )


def _at_least(path: Path, number: int | None, least: int) -> Iterator[Problem]:
    if number is not None and number < least:
        yield Problem(path, f"must be at least {least}, not {number}")
    elif number is not None and number >= 2**31:
        yield Problem(path, f"must be less than 2147483648, not {number}")


def _between(path: Path, number: Any, least: float, most: float) -> Iterator[Problem]:
    if number is not None and not least <= number <= most:
        yield Problem(path, f"must be between {least} and {most}, not {number}")
