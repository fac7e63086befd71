"""Multimodal models: where the config keeps the text model, and which encoders stand beside it."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.encoders.registry import (
    ENCODER_PARTS,
    ENCODERS,
    TEXT_PARTS,
    read_named,
    text_architecture,
)
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.facts import MultiModalEncoder

TEXT_BY_TYPE = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM",
    "mistral4": "MistralLarge3ForCausalLM", "mixtral": "MixtralForCausalLM", "qwen2": "Qwen2ForCausalLM",
    "qwen2_vl_text": "Qwen2ForCausalLM", "qwen2_5_vl_text": "Qwen2ForCausalLM", "qwen2_5_omni_text": "Qwen2ForCausalLM",
    "qwen3_omni_moe_text": "Qwen3MoeForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM", "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM", "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM", "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "gemma3n_text": "Gemma3nForCausalLM", "gemma4_text": "Gemma4ForCausalLM",
    "granite": "GraniteForCausalLM", "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "llama4_text": "Llama4ForCausalLM", "deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM", "kimi_linear": "KimiLinearForCausalLM", "glm4": "Glm4ForCausalLM",
    "glm4v_text": "Glm4ForCausalLM", "glm4v_moe_text": "Glm4MoeForCausalLM", "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM", "internlm2": "InternLM2ForCausalLM", "phi3": "Phi3ForCausalLM",
    "cohere": "CohereForCausalLM", "cohere2": "Cohere2ForCausalLM", "mllama_text_model": "MllamaForCausalLM",
    "minimax_m3_text": "MiniMaxM3SparseForCausalLM", "nemotron_h": "NemotronHForCausalLM",
    "step3p5": "Step3p5ForCausalLM", "step3p7": "Step3p5ForCausalLM", "smollm3": "SmolLM3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM",
}  # fmt: skip
"""Text architecture of a nested text config, by its model_type."""

WITHIN = "thinker_config"
"""Where models that also generate speech keep the part that vLLM serves."""


def known_multimodal() -> tuple[str, ...]:
    return tuple(sorted(ENCODERS))


def text_part(name: str, config: Fields) -> tuple[str, Fields]:
    """The text architecture and its part of the config (the whole config for models that do not nest it)."""
    known = ENCODERS.get(name)
    if known is None:
        return name, config
    text = _served(config)
    for names in known.path or (TEXT_PARTS,):
        text = text.child(*names)
    usual = text_architecture(known, config)
    if not text:
        return usual, config
    named = text.texts("architectures", longest=16)
    if named and named[0] in TEXT_BY_TYPE.values():
        return named[0], text
    return TEXT_BY_TYPE.get(text.text("model_type"), usual), text


def unlisted_text(name: str, config: Fields) -> tuple[str, Fields]:
    """As text_part(), for an architecture that is not known: its text model by what the config says of it, or ""."""
    served = _served(config)
    text = served.child(*TEXT_PARTS, "decoder_config", "lm_config")
    named = text.texts("architectures", longest=16)
    if named:
        return named[0], text
    text = text or served
    by_name = name.removesuffix("ForConditionalGeneration") + "ForCausalLM"
    return TEXT_BY_TYPE.get(text.text("model_type"), by_name), text


def unlisted_encoders(
    config: Fields, hidden: int, builder: Builder
) -> tuple[tuple[MultiModalEncoder, ...], tuple[str, ...]]:
    """The encoders of an architecture that is not known, by their usual fields, and the parts that lack these."""
    served, found, lacking = _served(config), [], []
    parts: dict[str, tuple[Fields, str]] = {}
    for name in ENCODER_PARTS:
        if not served.holds(name):
            continue
        part = served.child(name)
        hears = any(word in name for word in ("audio", "sound", "speech")) or part.has("num_mel_bins")
        parts[name] = part, "generic:USUAL_SOUND" if hears else "generic:USUAL_IMAGE"
    if served.has("encoder_layers"):
        parts["encoder_layers"] = served, "generic:USUAL_SOUND"
    for name, (part, row) in parts.items():
        try:
            encoder = read_named(row, EncoderSource(served, part, hidden, builder))
        except UsageError:  # sizes of another kind: stages, or a grid of its own
            encoder = None
        if encoder is None:
            lacking.append(name)
        else:
            found.append(encoder)
    return tuple(found), tuple(lacking)


def encoders(name: str, config: Fields, hidden: int, builder: Builder) -> tuple[MultiModalEncoder, ...]:
    """The encoders of a model with their projectors; none for text models."""
    known = ENCODERS.get(name)
    if known is None:
        return ()
    served = _served(config)
    found = []
    for spec, part in ((known.vision, "vision_config"), (known.audio, "audio_config")):
        encoder = read_named(spec, EncoderSource(served, served.child(part), hidden, builder)) if spec else None
        if encoder is not None:
            found.append(encoder)
    return tuple(found)


def _served(config: Fields) -> Fields:
    """The part of the config that vLLM serves."""
    return config.child(WITHIN) if config.has(WITHIN) else config
