"""quantization_config (or hf_quant_config.json) to a Scheme per module: which format it is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.quantizer import Quantizer
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.text.problems import quoted

_READERS = {
    "fp8": "plain:read_fp8", "deepseek_v4_fp8": "plain:read_fp8", "fbgemm_fp8": "plain:read_fbgemm",
    "awq": "plain:read_awq", "awq_marlin": "plain:read_awq", "auto_awq": "plain:read_awq",
    "gptq": "gptq:read_gptq", "gptq_marlin": "gptq:read_gptq", "auto_gptq": "gptq:read_gptq",
    "auto-round": "gptq:read_autoround", "auto_round": "gptq:read_autoround", "inc": "gptq:read_autoround",
    "mxfp4": "plain:read_mxfp4", "gpt_oss_mxfp4": "plain:read_mxfp4", "mxfp8": "plain:read_mxfp8",
    "fp_quant": "plain:read_fp_quant", "bitsandbytes": "plain:read_bitsandbytes", "torchao": "torchao:read_torchao",
    "quark": "quark:read_quark", "compressed-tensors": "compressed:read_compressed",
}  # fmt: skip
"""Readers of formats/ by quant_method. Only that of the model is imported."""


def read_quantization(config: Fields, side: Mapping[str, Any] | None) -> Quantizer | None:
    """The quantizer of a checkpoint, or None if it is not quantized. UserError for an unknown method."""
    fields = config.child("quantization_config", "compression_config")
    if not fields:
        fields = config.child("text_config", "language_config", "llm_config").child("quantization_config")
    if not fields and side:
        fields = Fields(side, "hf_quant_config.json: ")
    if not fields:
        return None
    inner = fields.child("quantization")
    producer = fields.child("producer").text("name")
    method = fields.text("quant_method").lower().replace("_tensors", "-tensors")
    if producer == "modelopt" or inner.has("quant_algo") or method.startswith("modelopt") or fields.has("quant_algo"):
        quantizer: Quantizer = _reader("modelopt:read_modelopt")(fields, inner if inner else fields, side, method)
        return quantizer
    if method not in _READERS:
        raise UserError(
            f"unsupported quantization: config.json names quant_method {quoted(method[:40])}, which vLLM does not have",
            hint=f"Methods that can be planned: {', '.join(sorted(_READERS))}, modelopt.",
        )
    found: Quantizer = _reader(_READERS[method])(fields)
    return found


def _reader(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"rayllm_ctl.catalog.modelconfig.formats.{module}"), function)
