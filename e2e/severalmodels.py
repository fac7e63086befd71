"""Spec files of services with several models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LLAMA, MIDDLE, QWEN = "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-14B", "Qwen/Qwen3-8B"


def written(folder: Path, *models: dict[str, Any], **spec: Any) -> str:
    """A spec file of a service with these models."""
    file = folder / "chat.yaml"
    document = {
        "apiVersion": "rayllm.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "chat"},
        "spec": {"models": list(models), **spec},
    }
    file.write_text(json.dumps(document))
    return str(file)


def model(name: str, model_id: str, tensor: int, **more: Any) -> dict[str, Any]:
    return {
        "id": model_id, "name": name, "accelerator": {"gpu": "H100-80GB"}, "parallelism": {"tensor": tensor}, **more,
    }  # fmt: skip
