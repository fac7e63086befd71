"""A LoRA adapter for the tiny model that turns its answers into other words."""

from __future__ import annotations

import json
import random
import struct
from array import array
from pathlib import Path

from e2e.images.tiny_model import FEED_FORWARD, HIDDEN, LAYERS

RANK = 8
_SCALE = 0.3
"""Standard deviation of its weights, against which those of the model count little."""


def write(folder: Path, *, seed: int = 1) -> None:
    """Make `folder` an adapter, in the form of PEFT."""
    folder.mkdir(parents=True)
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny", "r": RANK, "lora_alpha": RANK,
        "target_modules": ["down_proj"], "lora_dropout": 0.0, "bias": "none",
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    numbers = random.Random(seed)
    header, data = {}, array("f")
    for layer in range(LAYERS):
        for matrix, shape in (("A", (RANK, FEED_FORWARD)), ("B", (HIDDEN, RANK))):
            begin = len(data) * data.itemsize
            data.extend(numbers.gauss(0, _SCALE) for _ in range(shape[0] * shape[1]))
            name = f"base_model.model.model.layers.{layer}.mlp.down_proj.lora_{matrix}.weight"
            offsets = [begin, len(data) * data.itemsize]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
    # The format of safetensors: the length of the header, the header, the tensors one after another.
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data.tobytes())
