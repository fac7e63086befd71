"""Formats that store all quantized modules in one way.

From vLLM's model_executor/layers/quantization (0.29, 0.33): which tensors a linear layer gets beside its weight.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import Ignored
from rayllm_ctl.catalog.modelconfig.quantizer import MXFP4, MXFP8, NVFP4, Quantizer, QuantizerRule, assumed_sizes, fp8
from rayllm_ctl.model.plan.facts import Scheme


def _skipped(fields: Fields) -> Ignored:
    return Ignored(
        fields.texts("modules_to_not_convert", "ignored_layers")
        + fields.texts("ignore", "exclude_modules", "exclude")
        + ("lm_head",)
    )


def read_fp8(fields: Fields) -> Quantizer:
    """DeepSeek's and Transformers' format; with store_dtype mxfp4 the experts are stored in that (fp8.py, 0.33)."""
    scheme, about = fp8(fields)
    experts = fields.text("store_dtype").lower() == "mxfp4"
    stored = (QuantizerRule(MXFP4, Ignored(("re:.*experts",))),) if experts else ()
    about += ", experts mxfp4" if experts else ""
    return Quantizer("fp8", (*stored, QuantizerRule(scheme)), _skipped(fields), description=about)


def read_fbgemm(fields: Fields) -> Quantizer:
    scheme = Scheme("fbgemm_fp8", 8, floating=True)
    return Quantizer("fbgemm_fp8", (QuantizerRule(scheme),), _skipped(fields), description="fp8 per channel (FBGEMM)")


def read_awq(fields: Fields) -> Quantizer:
    """AutoAWQ's format: its list holds parts of names (quantization/auto_awq.py, match_mode "substring", 0.33;
    awq.py is_layer_skipped_awq, 0.10)."""
    bit_names, group_names = ("bits", "w_bit"), ("group_size", "q_group_size")
    bits = fields.integer(*bit_names, default=4, high=8)
    group = fields.integer(*group_names, default=128, low=-1)
    assumed = assumed_sizes(fields, bits, group, bit_names, group_names)
    zeros, head = fields.flag("zero_point", default=True), fields.flag("lm_head")
    scheme = Scheme("awq", bits, group=max(group, 0), scale_bytes=2, zero_points=zeros, weight_only=True)
    kept = fields.texts("modules_to_not_convert")
    ignored = Ignored((*kept, *(() if head else ("lm_head",))), kept)
    about = f"AWQ {bits} bit, groups of {group}"
    return Quantizer("awq", (QuantizerRule(scheme),), ignored, description=about, head=head, assumed=assumed)


def read_mxfp4(fields: Fields) -> Quantizer:
    return Quantizer("mxfp4", (QuantizerRule(MXFP4),), _skipped(fields), description="mxfp4 experts", experts_only=True)


def read_mxfp8(fields: Fields) -> Quantizer:
    """MiniMax' format, which vLLM reads as modelopt's (quantization/__init__.py, 0.33)."""
    return Quantizer("mxfp8", (QuantizerRule(MXFP8),), _skipped(fields), description="mxfp8")


def read_fp_quant(fields: Fields) -> Quantizer:
    """FP-Quant: 4-bit floats and, in every projection, two matrices that rotate its inputs (quantization/fp_quant.py,
    0.33; of a group each, so that they are left out)."""
    kind = fields.text("forward_dtype", default="mxfp4")
    scheme = replace(NVFP4 if kind == "nvfp4" else MXFP4, method="fp_quant")
    return Quantizer("fp_quant", (QuantizerRule(scheme),), _skipped(fields), description=f"FP-Quant {kind}"[:60])


def read_bitsandbytes(fields: Fields) -> Quantizer:
    bits = 8 if fields.flag("load_in_8bit") else 4
    scheme = Scheme("bitsandbytes", bits, group=64 if bits == 4 else 0, scale_bytes=4, weight_only=True)
    ignored = Ignored((*fields.texts("llm_int8_skip_modules"), "lm_head"))
    return Quantizer("bitsandbytes", (QuantizerRule(scheme),), ignored, description=f"bitsandbytes {bits} bit")
