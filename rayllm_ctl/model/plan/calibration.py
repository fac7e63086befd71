"""The ratio of measured to planned speed of a model, and its scope."""

from __future__ import annotations

from dataclasses import field

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class Calibration:
    """Measured figures as parts of those of the plan: throughput (requests and tokens per second), ttft, tpot.

    They hold for the model on this GPU, TP, PP, vLLM version and quantization. date: of the measurement, ISO 8601.
    in_flight: requests in one replica at the time, with so many input and output tokens on average; requests: how many
    were measured. kv_cache: measured KV cache of the fullest GPU as a part of the planned one, of which
    kv_cache_bytes and planned_kv_cache_bytes are the sizes; it corrects no plan, but says how wrong one was.
    """

    model: str
    gpu: str
    tensor: int
    pipeline: int
    vllm_version: str
    throughput: float
    ttft: float
    tpot: float
    date: str
    in_flight: float
    input_tokens: int
    output_tokens: int
    requests: int
    quantization: str | None = field(default=None, metadata=OMIT_NONE)
    kv_cache_dtype: str | None = field(default=None, metadata=OMIT_NONE)
    kv_cache: float | None = field(default=None, metadata=OMIT_NONE)
    kv_cache_bytes: int | None = field(default=None, metadata=OMIT_NONE)
    planned_kv_cache_bytes: int | None = field(default=None, metadata=OMIT_NONE)

    @property
    def holds_for(self) -> tuple[str, str, int, int, str, str, str]:
        """What it was measured with: a calibration for something else does not hold."""
        of_engine = (self.vllm_version, self.quantization or "", self.kv_cache_dtype or "")
        return (self.model, self.gpu, self.tensor, self.pipeline, *of_engine)

    def __str__(self) -> str:
        return calibrated_part(*self.holds_for)


def calibrated_part(
    model: str, gpu: str, tensor: int, pipeline: int, vllm_version: str, quantization: str, kv_cache_dtype: str
) -> str:
    """What a calibration holds for, in words."""
    layout = f"TP {tensor}" + (f" × PP {pipeline}" if pipeline > 1 else "")
    settings = "".join(f", {one}" for one in (quantization, f"KV {kv_cache_dtype}" if kv_cache_dtype else "") if one)
    return f"{model} on {tensor * pipeline} × {gpu} ({layout}), vLLM {vllm_version}{settings}"
