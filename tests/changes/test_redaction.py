"""What is secret is masked wherever it stands, and nothing else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rayllm_ctl.changes.redaction import redacted, redacted_text

PLAIN = "correct-horse"
"""A secret that only its name tells."""

HUB = "hf_" + "aBcDeFgHiJ" * 3
JWT = "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "Secret", "data": {"token": PLAIN}, "stringData": {"x": PLAIN}},
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"a":"{PLAIN}"}}'}}},
        {"metadata": {"annotations": {"example.com/api-token": PLAIN}, "managedFields": [{"f:x": PLAIN}]}},
        {"env": [{"name": "HF_TOKEN", "value": PLAIN}]},
        {"env": [{"name": "OPENAI_API_KEY", "value": PLAIN}, {"name": "FERNET_KEY", "value": PLAIN}]},
        {"env": [{"name": "HARMLESS", "value": HUB}]},
        {"runtime_env": {"env_vars": {"MY_KEY": PLAIN, "DB_PASSWORD": PLAIN}}},
        {"engineArgs": {"api_key": PLAIN, "apiKeys": [PLAIN]}},
        {"args": ["vllm", "serve", "--api-key", PLAIN]},
        {"args": [f"--hf-token={PLAIN}", f"--header=Authorization: Bearer {PLAIN}"]},
        {"command": ["sh", "-c", f"vllm serve --api-key {PLAIN} && export HF_TOKEN={PLAIN}"]},
        {"serveConfigV2": f"runtime_env:\n  env_vars:\n    HF_TOKEN: {PLAIN}\n    SOME_KEY: '{PLAIN}'\n"},
        {"serveConfigV2": f"env_vars:\n  HF_TOKEN: >-\n    {PLAIN}\n  SOME_KEY: |\n\n    x\n    {PLAIN}\n  K: 1\n"},
        {"redisPassword": {"value": PLAIN}},
        {"message": f"pull from https://user:{PLAIN}@registry.example.com/x failed"},
    ],
)  # fmt: skip
def test_no_secret_is_left(value: dict[str, Any]) -> None:
    left = json.dumps(redacted(value))
    assert PLAIN not in left
    assert HUB not in left


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {PLAIN}",
        f"authorization: basic {PLAIN}",
        f"'x-ray-authorization': 'Bearer {PLAIN}'",
        f"login with {HUB} failed",
        f"token={PLAIN}&x=1",
        f'{{"password": "{PLAIN}"}}',
        f"non-default args: {{'api_key': ['x', '{PLAIN}'], 'model': 'y'}}",
        f"Namespace(api_key=['{PLAIN}'], port=8000)",
        f"jwt {JWT}",
        f"Set-Cookie: session={PLAIN}; Path=/",
        f"GET https://x.blob.core.windows.net/m?sv=1&sig={PLAIN}",
        f"s3://m/x?X-Amz-Signature={PLAIN}",
        f"AccountKey={PLAIN};EndpointSuffix=x",
        f"{PEM} and more",
        "sk-proj-0123456789abcdef",
        "ghp_" + "a1B2" * 9,
        "AKIAIOSFODNN7EXAMPLE",
        "rayllm-" + "aB3_-" * 8 + "xyz",
    ],
)
def test_no_secret_is_left_in_a_line(line: str) -> None:
    left = redacted_text(line)
    assert "***" in left
    for secret in (PLAIN, HUB, JWT, "MIIE", "0123456789abcdef", "a1B2", "AKIAIOSF", "aB3_"):
        assert secret not in left


@pytest.mark.parametrize(
    "value",
    [
        {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]},
        {"volumes": [{"secret": {"secretName": "models"}}], "imagePullSecrets": [{"name": "registry"}]},
        {"env": [{"name": "HF_TOKEN_FILE", "value": "/secrets/token"}, {"name": "VLLM_HOST", "value": "0.0.0.0"}]},
        {"args": ["--max-num-batched-tokens", "2048", "--tokenizer", "x/y", "--api-key"]},
        {"topologyKey": "kubernetes.io/hostname", "automountServiceAccountToken": False, "max_tokens": 16},
        {"message": 'Error: secret "hf" not found; couldn\'t find key token in Secret llm/hf'},
        {"message": "rayllm-a-very-long-name-of-a-service-in-lower-case-gpu-worker-x2x4z has no node"},
        {"text": "token:\n  limit: 4\n"},
        {"text": "added_tokens: ['a', 'b']\nREADME: |\n  a text\n"},
        {"redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}},
        {"message": "0/3 nodes are available: 1 Insufficient nvidia.com/gpu"},
        {"image": "registry.example.com:5000/rayproject/ray-llm:2.60.0@sha256:0123456789abcdef0123456789abcdef"},
        {"url": "http://qwen-serve-svc.llm:8000/v1"},
    ],
)
def test_what_is_no_secret_stays(value: dict[str, Any]) -> None:
    assert redacted(value) == value


def test_long_lines_take_no_long_time() -> None:
    """An expression that scans a line from each of its characters would take minutes of CPU time."""
    for text in ("A" * 50_000, "-" * 50_000, "eyJ" + "a-" * 20_000, "://" * 10_000, "token " * 10_000):
        begun = time.thread_time()
        assert redacted_text(text) == text
        assert time.thread_time() - begun < 1
