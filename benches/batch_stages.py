"""The engine stages of bench_batch: each side's own, which records when its engine is ready."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF

from rayllm_ctl.serving.batch.inference.engine import EngineStage

READY = Path.home() / "ready"


class ByHand(vLLMEngineStageUDF):  # type: ignore[misc]
    """Ray's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        READY.write_text(str(time.time()))


class OfBatchJob(EngineStage):
    """The batch job's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        READY.write_text(str(time.time()))
