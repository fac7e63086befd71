"""The Transformers engine: settings other than those of every engine."""

from __future__ import annotations

from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.form import QUANTITY

EngineKind = Literal["vllm", "transformers"]

QUANTIZATIONS = ("bitsandbytes-8bit", "bitsandbytes-4bit")
"""How the engine quantizes weights while it loads them."""

MOST_GPUS = 8


@dataclass(frozen=True)
class TransformersOptions:
    """How the Transformers engine holds a model. What is left out is planned."""

    gpus: Annotated[int | None, "GPUs of one pod over which the layers are spread."] = None
    max_memory_per_gpu: Annotated[str | None, QUANTITY, "Most memory of each GPU that weights may take: 10Gi."] = None
    cpu_memory: Annotated[
        str | None, QUANTITY, "Lets layers that the GPUs do not hold stay in CPU memory, up to this much: 30Gi. Slow."
    ] = None
    trust_remote_code: Annotated[bool, "Run Python code that the model's repository contains."] = False
