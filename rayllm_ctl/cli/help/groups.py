"""Which options are on the short help page of a command that has many, and the groups of the others."""

from __future__ import annotations

_SIZE = ("--gpu", "--tp", "--replicas", "--min-replicas", "--max-replicas", "--max-model-len", "--quantization")
_BATCH_ENGINE = ("--gpu", "--tp", "--max-model-len", "--hf-token-secret")

MOST_USED: dict[str, tuple[str, ...]] = {
    "deploy": (
        "--file", "--name", *_SIZE, "--hf-token-secret", "--image", "--gateway", "--dry-run", "--wait", "--timeout",
        "--output", "--namespace",
    ),
    "plan": (
        "--file", *_SIZE, "--concurrency", "--input-tokens", "--output-tokens", "--ttft", "--tpot", "--offline",
        "--explain", "--output", "--namespace",
    ),
    "render": (
        "--file", "--name", *_SIZE, "--image", "--hf-token-secret", "--gateway", "--offline", "--output-dir",
        "--output", "--namespace",
    ),
    "init": (
        "--file", "--name", *_SIZE, "--image", "--hf-token-secret", "--gateway", "--from-serve-config", "--offline",
        "--output", "--namespace",
    ),
    "diff": (
        "--file", "--name", *_SIZE, "--local", "--fail-on", "--field-manager", "--output", "--namespace",
    ),
    "batch submit": (
        "--file", "--name", "--input", "--prompt", "--output-path", "--output-format", "--max-tokens", *_BATCH_ENGINE,
        "--concurrency", "--dry-run", "--wait", "--output", "--namespace",
    ),
    "batch init": (
        "--file", "--name", "--input", "--prompt", "--output-path", "--output-format", "--max-tokens", *_BATCH_ENGINE,
        "--concurrency", "--offline", "--output", "--namespace",
    ),
    "bench run": (
        "--url", "--model", "--concurrency", "--rate", "--requests", "--duration", "--input-tokens",
        "--output-tokens", "--prompts", "--slo", "--find-max", "--api-key-file", "--local", "--output", "--namespace",
    ),
    "bench sweep": (
        "--file", "--name", "--gpu", "--tp", "--max-replicas", "--max-model-len", "--vary", "--concurrency",
        "--rate", "--requests", "--duration", "--slo", "--find-max", "--output-dir", "--output", "--namespace",
    ),
    "bench offline": (
        "--file", "--name", *_BATCH_ENGINE, "--image", "--concurrency", "--input-tokens", "--output-tokens",
        "--requests", "--start-timeout", "--output", "--namespace",
    ),
}  # fmt: skip
"""By the name of a command, in the order of its short page; commands with few options show all of them."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Model": (
        "--model", "--name", "--revision", "--model-path", "--hf-token-secret", "--lora-path", "--adapter",
        "--model-config", "--offline", "--from-hub",
    ),
    "Engine": (
        "--engine", "--max-model-len", "--dtype", "--quantization", "--kv-cache-dtype", "--gpu-memory-utilization",
        "--max-num-seqs", "--max-num-batched-tokens", "--vllm-version", "--engine-arg",
    ),
    "GPU": ("--gpu", "--accelerator", "--tp", "--pp", "--tp-across-nodes"),
    "Scaling": (
        "--replicas", "--min-replicas", "--max-replicas", "--target-ongoing-requests", "--upscale-delay",
        "--downscale-delay", "--min-concurrency",
    ),
    "Planning": (
        "--objective", "--concurrency", "--input-tokens", "--output-tokens", "--cached-tokens", "--accepted-tokens",
        "--ttft", "--tpot", "--rate", "--rows", "--prices", "--calibration", "--plot", "--accept-risk",
    ),
    "Pod": (
        "--image", "--env", "--volume", "--cpu", "--memory", "--node-selector", "--toleration", "--pod-security",
    ),
    "Storage": (
        "--model-claim", "--model-uri", "--model-load", "--mirror", "--storage-secret", "--storage-endpoint",
        "--compile-cache",
    ),
    "Service": ("--kind", "--gateway", "--serve-config", "--code"),
    "Input and output": (
        "--prompt-text", "--input-format", "--key-column", "--prompt-column", "--system", "--task", "--rename",
        "--temperature", "--sampling-arg", "--s3-endpoint", "--s3-region", "--s3-anonymous", "--s3-secret",
    ),
    "Job": ("--cluster", "--deadline", "--max-errors"),
    "Load": (
        "--api", "--rate", "--arrivals", "--burst", "--ramp", "--duration", "--requests", "--warmup",
        "--answer-timeout", "--stream", "--set", "--seed", "--slo", "--find-max",
    ),
    "Prompt": ("--input-tokens", "--output-tokens", "--prefix-tokens", "--prefixes", "--prompts", "--tokenizer"),
    "Server": (
        "--local", "--api-key-secret", "--api-key-file", "--ca-file", "--insecure-skip-tls-verify", "--calibrate",
        "--startup-plan",
    ),
    "Rollout": (
        "--wait", "--timeout", "--upgrade", "--accept-outage", "--rollback-on-failure", "--force-conflicts",
    ),
    "Manifest": ("--template-dir", "--kuberay-version"),
    "Cluster": ("--kubeconfig", "--context", "--as", "--as-group", "--request-timeout"),
    "Global": ("--verbose", "--debug", "--color", "--help-all"),
}  # fmt: skip
"""In the order of the page. Where a flag is in two groups, the command decides: see `group_of`."""

_BENCH = ("Load", "Prompt", "Server")


def group_of(command: str, flag: str) -> str | None:
    """The group of a flag of `command`."""
    titles = [title for title, flags in GROUPS.items() if flag in flags]
    if command in ("bench run", "bench sweep"):
        titles.sort(key=lambda title: title not in _BENCH)
    return titles[0] if titles else None
