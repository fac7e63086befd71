"""What is wrong with an LLMService by itself, before any model, GPU or cluster is looked at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.model import podfields
from rayllm_ctl.model.engineargs import (
    DTYPES,
    FORBIDDEN_ARGS,
    KV_CACHE_DTYPES,
    OLDEST_RAY,
    OWN_FIELD,
    RESERVED_ENV,
    holds_a_token,
    names_a_secret,
)
from rayllm_ctl.model.names import namespace_problem, nearest, service_name, service_name_problem
from rayllm_ctl.model.patterns import ENV_NAME, IMAGE, MODEL_ID, QUANTIZATION, REVISION, UNSENDABLE, VERSION
from rayllm_ctl.model.service import Engine, LLMService, Load, Model, Replicas

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `path` leads to it in the spec file: ("spec", "storage", "volumes", 0, "name").

    `message` never repeats a value that may be a secret.
    """

    path: Path
    message: str
    hint: str = ""

    @property
    def where(self) -> str:
        """The path as text: spec.storage.volumes[0].name."""
        return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path).lstrip(".")

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def validate(service: LLMService) -> list[Problem]:
    """All that is wrong with `service`, in the order of the spec file; empty if nothing is."""
    return [
        *_metadata(service),
        *_model(service.model),
        *_engine(service.engine, service.accelerator.kind),
        *_placement(service),
        *_replicas(service.replicas),
        *(Problem(("spec", *path), message, hint) for path, message, hint in podfields.problems(service)),
        *_load(service.load),
    ]


def _metadata(service: LLMService) -> Iterator[Problem]:
    problem = service_name_problem(service.name)
    if problem:
        suggestion = service_name(service.name)
        yield Problem(
            ("metadata", "name"), f"{service.name!r} cannot name a service: {problem}", f"{suggestion} would do"
        )
    problem = None if service.namespace is None else namespace_problem(service.namespace)
    if problem:
        yield Problem(("metadata", "namespace"), f"{service.namespace!r} is no namespace: {problem}")


def _model(model: Model) -> Iterator[Problem]:
    if not MODEL_ID.fullmatch(model.id):
        hint = "with the folder in spec.model.path (--model-path), id is any name" if "/" in model.id else ""
        yield Problem(("spec", "model", "id"), f"{model.id!r} is no model name such as qwen3 or Qwen/Qwen3-32B", hint)
    if model.path is not None and not podfields.is_absolute(model.path):
        yield Problem(("spec", "model", "path"), f"{model.path!r} is no absolute path of a folder in the pods")
    if model.revision is not None and model.path is not None:
        yield Problem(
            ("spec", "model", "revision"), "a revision is one of the hub's; the model is read from a folder (path)"
        )
    elif model.revision is not None and not REVISION.fullmatch(model.revision):
        yield Problem(("spec", "model", "revision"), f"{model.revision!r} is no branch, tag or commit")
    secret = model.token_secret
    if secret is not None and not (podfields.is_object_name(secret.name) and podfields.is_data_key(secret.key)):
        # Not repeated: somebody may have written the token itself.
        yield Problem(
            ("spec", "model", "tokenSecret"),
            "expected the name of a Secret and one of its keys, never the token itself",
            "kubectl create secret generic hf-token --from-file=token=FILE",
        )


def _engine(engine: Engine, kind: str) -> Iterator[Problem]:
    at = ("spec", "engine")
    if engine.image is not None and not IMAGE.fullmatch(engine.image):
        yield Problem((*at, "image"), "this is no image reference such as rayproject/ray-llm:2.60.0-py312-cu130")
    for name, version in (("vllmVersion", engine.vllm_version), ("rayVersion", engine.ray_version)):
        if version is not None and not VERSION.fullmatch(version):
            yield Problem((*at, name), f"{version!r} is no version such as 0.29.0")
        elif version is not None and name == "rayVersion" and _release(version) < OLDEST_RAY:
            oldest = ".".join(str(number) for number in OLDEST_RAY)
            yield Problem((*at, name), f"what is rendered needs Ray {oldest} or newer, not {version}")
    for name, number in (
        ("maxModelLen", engine.max_model_len),
        ("maxNumSeqs", engine.max_num_seqs),
        ("maxNumBatchedTokens", engine.max_num_batched_tokens),
    ):
        yield from _at_least((*at, name), number, 1)
    yield from _known((*at, "dtype"), engine.dtype, DTYPES)
    yield from _known((*at, "kvCacheDtype"), engine.kv_cache_dtype, KV_CACHE_DTYPES)
    if engine.quantization is not None and not QUANTIZATION.fullmatch(engine.quantization):
        yield Problem((*at, "quantization"), f"{engine.quantization!r} is no quantization method such as fp8 or awq")
    share = engine.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        yield Problem((*at, "gpuMemoryUtilization"), f"it must be above 0 and at most 1, not {share}")
    if share is not None and kind == "cpu":
        yield Problem((*at, "gpuMemoryUtilization"), "a service on CPUs has no GPU memory")
    seqs, batch = engine.max_num_seqs, engine.max_num_batched_tokens
    if seqs is not None and batch is not None and 1 <= batch < seqs:
        yield Problem(
            (*at, "maxNumBatchedTokens"),
            f"vLLM needs at least one token for each of the {seqs} requests of maxNumSeqs, not {batch}",
        )
    for name, value in engine.args.items():
        yield from _argument(name, value)
    for name, text in engine.env.items():
        yield from _variable(name, text)


def _argument(name: str, value: Any) -> Iterator[Problem]:
    at = ("spec", "engine", "args", name)
    python_name = name.lstrip("-").replace("-", "_")
    if python_name in OWN_FIELD:
        field, flag = OWN_FIELD[python_name]
        yield Problem(at, "this argument has a field of its own", f"{field}, or {flag}")
    elif python_name in FORBIDDEN_ARGS:
        yield Problem(at, f"it cannot be set: {FORBIDDEN_ARGS[python_name]}")
    elif not python_name.isidentifier() or python_name != python_name.lower():
        yield Problem(at, "this is no name of an engine argument")
    elif python_name != name:
        yield Problem(at, "engine arguments go by their Python name", python_name)
    elif not _is_plain_data(value):
        yield Problem(at, "its value has no form in JSON: a number that is not finite, or text that is not Unicode")
    elif _any_text(value, holds_a_token):
        yield Problem(at, "its value looks like an access token, which would be readable in the cluster")


def _variable(name: str, value: str) -> Iterator[Problem]:
    at = ("spec", "engine", "env", name)
    if not ENV_NAME.fullmatch(name):
        yield Problem(at, "this is no name of an environment variable")
    elif name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        yield Problem(at, "a token belongs into a Secret", "spec.model.tokenSecret, or --hf-token-secret NAME/KEY")
    elif names_a_secret(name) or holds_a_token(value):
        yield Problem(
            at,
            "it seems to hold a secret, which everybody who may read the RayService could read",
            "put it into a Secret and mount that: spec.storage.volumes[].secret",
        )
    elif name in RESERVED_ENV:
        yield Problem(at, f"it cannot be set: {RESERVED_ENV[name]}")
    elif UNSENDABLE.search(value):
        yield Problem(at, "its value holds control characters that Kubernetes does not take")


def _placement(service: LLMService) -> Iterator[Problem]:
    cpu = service.accelerator.kind == "cpu"
    if cpu and service.accelerator.gpu is not None:
        yield Problem(
            ("spec", "accelerator", "gpu"),
            f"a service on CPUs uses no {service.accelerator.gpu}",
            "leave out kind: cpu (--accelerator cpu), or the GPU",
        )
    yield from _at_least(("spec", "parallelism", "tensor"), service.parallelism.tensor, 1)
    yield from _at_least(("spec", "parallelism", "pipeline"), service.parallelism.pipeline, 1)
    if service.parallelism.across_nodes and (cpu or service.parallelism.tensor is None):
        yield Problem(
            ("spec", "parallelism", "acrossNodes"),
            "a replica on CPUs is one pod" if cpu else "it lets a named tensor parallel size span nodes; none is named",
            "" if cpu else "spec.parallelism.tensor, or --tp N",
        )
    if cpu and (service.parallelism.pipeline or 1) > 1:
        yield Problem(
            ("spec", "parallelism", "pipeline"), "a replica on CPUs is one pod, which pipeline parallelism cannot span"
        )


def _replicas(replicas: Replicas) -> Iterator[Problem]:
    at = ("spec", "replicas")
    yield from _at_least((*at, "min"), replicas.min, 0)
    yield from _at_least((*at, "max"), replicas.max, 1)
    if replicas.min > replicas.max >= 1:
        yield Problem((*at, "min"), f"min {replicas.min} is above max {replicas.max}")
    yield from _at_least((*at, "targetOngoingRequests"), replicas.target_ongoing_requests, 1)
    yield from _amount((*at, "upscaleDelay"), replicas.upscale_delay, zero=True)
    yield from _amount((*at, "downscaleDelay"), replicas.downscale_delay, zero=True)
    yield from _amount((*at, "lookBackPeriod"), replicas.look_back_period)


def _load(load: Load) -> Iterator[Problem]:
    at = ("spec", "load")
    yield from _known((*at, "objective"), load.objective, ("cost", "throughput", "latency"))
    yield from _at_least((*at, "concurrency"), load.concurrency, 1)
    yield from _at_least((*at, "inputTokens"), load.input_tokens, 1)
    yield from _at_least((*at, "outputTokens"), load.output_tokens, 1)
    for name, amount in (("ttft", load.ttft), ("tpot", load.tpot), ("rate", load.rate)):
        yield from _amount((*at, name), amount)


def _at_least(path: Path, number: int | None, least: int) -> Iterator[Problem]:
    if number is not None and number < least:
        yield Problem(path, f"it must be at least {least}, not {number}")
    elif number is not None and number >= 2**31:
        yield Problem(path, f"it must be below 2147483648, not {number}")


def _amount(path: Path, number: float | None, *, zero: bool = False) -> Iterator[Problem]:
    if number is not None and not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        yield Problem(path, f"it must be {'0 or more' if zero else 'above 0'}, not {number}")


def _known(path: Path, word: str | None, words: Iterable[str]) -> Iterator[Problem]:
    if word is not None and word not in words:
        close = nearest(word, words)
        hint = f"did you mean {close}?" if close else ""
        yield Problem(path, f"{word!r} is none of {', '.join(words)}", hint)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int("".join(itertools.takewhile(str.isdigit, minor)))


def _is_plain_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _is_plain_data(k) and _is_plain_data(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain_data(item) for item in value)
    if isinstance(value, str):
        return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)
    return value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _any_text(value: Any, test: Callable[[str], bool]) -> bool:
    if isinstance(value, Mapping):
        return any(_any_text(item, test) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_any_text(item, test) for item in value)
    return isinstance(value, str) and test(value)
