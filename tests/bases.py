"""The golden manifests of which only the difference from another one is kept, and how it is kept.

A manifest in BASES has a `.diff` in place of its `.yaml`. All others are kept in full, those of manifests/ among them.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.differences import difference, patched

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "tests" / "render" / "golden" / "specs"

BASES = {
    # One model that vLLM serves on GPUs.
    "manifests/qwen3-32b/rayservice.yaml": """
        specs/calibrated specs/every-field specs/everything-around-it specs/fixed-replicas specs/gateway-route
        specs/for-the-controller specs/incremental-upgrade specs/ingress-with-tls specs/long-context
        specs/mixture-of-experts specs/no-upgrade specs/older-vllm specs/own-image-on-amd specs/patches
        specs/pipeline-over-nodes specs/planned-for-a-load specs/pod-templates specs/quantized-weights
        specs/guessed-tokens specs/scale-to-zero specs/tensor-parallel specs/vision-language specs/worker-groups
        examples/llama-405b
        examples/llama-70b-tp4 examples/qwen3-moe
    """,
    # The same on small GPUs, with a restricted network and a PodMonitor.
    "tests/render/golden/specs/restricted-network.yaml": """
        specs/autoscaling specs/disruption-budget specs/gateway-route-in-the-namespace specs/gateway-to-one-gpu
        specs/grpc-beside-http specs/head-only-proxy specs/load-balancer specs/pods specs/redis-and-token
        specs/small-model-on-l4 specs/tensor-across-nodes examples/llama-70b examples/private-model
        examples/qwen3-8b-fixed examples/scale-to-zero
    """,
    # On CPUs.
    "manifests/tiny-cpu/rayservice.yaml": """
        specs/image-that-runs-as-root specs/local-model-on-cpu specs/model-on-the-node
        specs/restricted-to-the-namespace specs/sidecars
    """,
    "manifests/raycluster/raycluster.yaml": """
        specs/raycluster-exposed specs/raycluster-on-cpu specs/raycluster-pp2 specs/raycluster-tp4
    """,
    "tests/render/golden/specs/several-models.yaml": "specs/transformers-beside-vllm",
    "tests/render/golden/specs/gateway-with-a-managed-redis.yaml": "specs/adapters",
    "tests/render/golden/specs/transformers-with-cpu-memory.yaml": """
        specs/applications specs/gateway-with-every-field specs/transformers-on-two-gpus
    """,
    "manifests/serve-config/rayservice.yaml": """
        serveconfigs/accelerators serveconfigs/chat serveconfigs/https serveconfigs/text-ml
    """,
    "tests/render/golden/batch/example-haikus.yaml": """
        batch/embeddings batch/every-field batch/example-summarize batch/on-a-cluster batch/prompts-on-cpu
    """,
}
"""The manifests kept in full, and those kept as the difference from each one, by the names that tests give them."""

BASE_OF = {f"{name}.yaml": base for base, names in BASES.items() for name in names.split()}

WORKLOAD = re.compile(r"^kind: Ray\w+\nmetadata:\n  name: (?P<name>\S+)$", re.MULTILINE)
HEADER = re.compile(r"--- (?P<base>\S+): (?P<old>\S+) -> (?P<new>\S+)\n")


def stored(file: Path) -> str:
    """The whole text of a golden file, whichever way it is kept; empty where there is none."""
    if file.exists():
        return file.read_text(encoding="utf-8")
    changes = file.with_suffix(".diff")
    if not changes.exists():
        return ""
    text = changes.read_text(encoding="utf-8")
    header = HEADER.match(text)
    assert header is not None, f"{changes} names no base"
    base = (ROOT / header["base"]).read_text(encoding="utf-8")
    return patched(base.replace(header["old"], header["new"]), text[header.end() :])


def store(file: Path, text: str, base: str | None) -> None:
    """Keep the text; with a base, what differs from that golden file once it has the name of this service or job."""
    file.parent.mkdir(parents=True, exist_ok=True)
    changes = file.with_suffix(".diff")
    if base is None:
        changes.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    file.unlink(missing_ok=True)
    whole = (ROOT / base).read_text(encoding="utf-8")
    old, new = _name(whole), _name(text)
    found = difference(whole.replace(old, new), text)
    changes.write_text(f"--- {base}: {old} -> {new}\n{found}", encoding="utf-8")


def _name(manifest: str) -> str:
    found = WORKLOAD.search(manifest)
    assert found is not None
    return found["name"]
