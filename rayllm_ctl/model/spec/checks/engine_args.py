"""Engine arguments and environment variables that a service may not set, and where to set them instead."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.text.patterns import Pattern

DTYPES = ("auto", "bfloat16", "float16", "float32", "float", "half")
"""ModelDType of vLLM (vllm/config/model.py, 0.9 to 0.32)."""

KV_CACHE_DTYPES = (
    "auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "nvfp4_ds_mla",
    "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc", "ultraquant_4bit",
    "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head", "nvfp4", "nvfp4_4over6",
)  # fmt: skip
"""CacheDType of vLLM (vllm/config/cache.py, 0.29 and 0.32): what no version knows is a misspelling."""

OWN_FIELD = {
    "tensor_parallel_size": ("spec.parallelism.tensor", "--tp"),
    "pipeline_parallel_size": ("spec.parallelism.pipeline", "--pp"),
    "max_model_len": ("spec.engine.maxModelLen", "--max-model-len"),
    "max_num_seqs": ("spec.engine.maxNumSeqs", "--max-num-seqs"),
    "max_num_batched_tokens": ("spec.engine.maxNumBatchedTokens", "--max-num-batched-tokens"),
    "gpu_memory_utilization": ("spec.engine.gpuMemoryUtilization", "--gpu-memory-utilization"),
    "dtype": ("spec.engine.dtype", "--dtype"),
    "quantization": ("spec.engine.quantization", "--quantization"),
    "kv_cache_dtype": ("spec.engine.kvCacheDtype", "--kv-cache-dtype"),
    "revision": ("spec.model.revision", "--revision"),
    "hf_token": ("spec.model.tokenSecret", "--hf-token-secret NAME/KEY"),
}
"""Engine arguments with a field of their own: the field, and the flag that sets it."""

FRONTEND_ARGUMENTS = {
    "chat_template": "null|str",
    "chat_template_content_format": "str",
    "enable_auto_tool_choice": "bool",
    "enable_prompt_tokens_details": "bool",
    "response_role": "str",
    "return_tokens_as_token_ids": "bool",
    "tool_call_parser": "null|str",
}
"""Arguments of the part of vLLM that reads requests, with their types. Ray Serve LLM passes them on with those of the
engine (vllm/entrypoints/launchers/cli_args.py, BaseFrontendArgs, 0.29)."""

SERVER_ARGUMENTS = ("served_model_name", "port", "shutdown_timeout", "distributed_executor_backend", "lora_modules")
"""Arguments of vLLM's own server that say nothing of what its engine computes."""

DATA_PARALLEL = (
    "data_parallel_size needs replicas that start together (build_dp_openai_app of Ray Serve LLM), which render and "
    "deploy do not support"
)
"""Why data parallelism is planned and not deployed. With build_openai_app of Ray 2.60 each replica is one rank that
waits for others which nobody starts."""

DATA_PARALLEL_INSTEAD = ("--tp N instead of data_parallel_size, with --engine-arg enable_expert_parallel=true",
                         "--replicas N    # without data_parallel_size: each has all experts")  # fmt: skip

_API_KEY = "anyone who can read the rendered object could read it"

_FORBIDDEN_ON_SERVE = {
    "model": "Ray Serve LLM takes the model from spec.model (--model, --model-path)",
    "served_model_name": "Ray Serve LLM serves the model under its id, spec.model.id (--model)",
    "distributed_executor_backend": "Ray Serve LLM chooses it: ray on GPUs, mp on CPUs",
    "disable_log_stats": "Ray Serve LLM needs the statistics for the engine's metrics",
    "api_key": _API_KEY,
}
"""Arguments that Ray Serve LLM 2.60 rejects (ray/llm/_internal/serve) or that would publish a secret, and why."""

_FORBIDDEN_ON_RAY_CLUSTER = {
    "model": "vLLM takes the model from spec.model (--model, --model-path)",
    "served_model_name": "vLLM serves the model under its id, spec.model.id (--model)",
    "host": "probes and the Service reach the server at the address of its pod",
    "port": "probes and the Service expect the server at port 8000",
    "api_key": _API_KEY,
}
"""Arguments that contradict the objects of vLLM's own server or would publish a secret, and why."""

RESERVED_ENV = {
    "RAY_enable_autoscaler_v2": "KubeRay sets it from autoscalerOptions.version and rejects both",
    "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": "the rendered configuration requires the ingress that it removes",
    **dict.fromkeys(
        (
            "FQ_RAY_IP", "KUBERAY_GEN_RAY_START_CMD", "RAY_CLOUD_INSTANCE_ID", "RAY_CLUSTER_NAME",
            "RAY_CLUSTER_NAMESPACE", "RAY_IP", "RAY_NODE_TYPE_NAME", "RAY_USAGE_STATS_EXTRA_TAGS",
        ),
        "KubeRay sets it",
    ),
}  # fmt: skip
"""Variables that would contradict what is rendered, or that KubeRay adds without looking for them
(ray-operator/controllers/ray/common/pod.go, v1.6.2), and why."""

_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "bool": (bool, "true or false"),
    "int": (int, "an integer"),
    "float": ((int, float), "a number"),
    "str": (str, "a string"),
    "dict": (dict, "a mapping"),
    "list": (list, "a list"),
    "null": (type(None), "null"),
}

_SECRET_WORDS = frozenset(
    {"TOKEN", "KEY", "KEYS", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "SECRETS", "CREDENTIAL", "CREDENTIALS"}
)
_SECRET_ENDINGS = ("TOKEN", "PASSWORD", "PASSWD", "SECRET", "APIKEY", "ACCESSKEY", "PRIVATEKEY")
_SECRET_LAST_WORDS = frozenset({"PASS", "PWD", "AUTH"})
"""Secrets at the end of a name (DB_PASS), not elsewhere (RAY_AUTH_MODE, PASS_THROUGH)."""

_PLACES = frozenset({"FILE", "PATH", "DIR"})
_NO_SECRETS = frozenset({"PWD", "GOOGLE_APPLICATION_CREDENTIALS"})
"""The shell's working directory, and the path of a file."""

_CREDENTIAL = Pattern(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16})\b"
    r"|\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@]*:[^\s/?#@]+@"
)


def forbidden_args(mode: str) -> Mapping[str, str]:
    """The engine arguments that a service of this mode may not set, and why."""
    return _FORBIDDEN_ON_RAY_CLUSTER if mode == "raycluster" else _FORBIDDEN_ON_SERVE


def type_problem(value: Any, types: str) -> str | None:
    """Why an engine argument of `types` ("int|null"; empty: any) cannot have `value`, or None."""
    if not types or any(_is_of(value, name) for name in types.split("|")):
        return None
    expected = " or ".join(words for name, (_, words) in _TYPES.items() if name in types.split("|"))
    found = json.dumps(value, ensure_ascii=False)
    return f"must be {expected}, not {found if len(found) <= 40 else type(value).__name__}"


def _is_of(value: Any, name: str) -> bool:
    kind, _ = _TYPES[name]
    return isinstance(value, kind) and (name == "bool" or not isinstance(value, bool))


def names_a_secret(variable: str) -> bool:
    """Whether a variable of this name would contain a secret: HF_TOKEN, AWS_SECRET_ACCESS_KEY, DB_PASS; not
    SSL_KEY_FILE, TOKENIZERS_PARALLELISM, MAX_TOKENS or BYPASS."""
    words = [word for word in re.split(r"[^A-Z0-9]+", variable.upper()) if word]
    if not words or words[-1] in _PLACES or variable.upper() in _NO_SECRETS:
        return False
    named = any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)
    return named or words[-1] in _SECRET_LAST_WORDS


def holds_a_credential(text: str) -> bool:
    """Whether `text` contains an access token of a well-known issuer, or a URL with a password (scheme://user:pw@)."""
    return _CREDENTIAL.search(text) is not None
