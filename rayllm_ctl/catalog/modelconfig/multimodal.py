"""Models that see or hear: where their text model stands in the config, and which encoder reader knows the rest."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.encoders import audio, clip, native, tiles
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Reader, Source
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Tower

_PARTS = ("text_config", "llm_config", "language_config", "language_model_config")

TEXT_BY_TYPE = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral4": "MistralLarge3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_vl_text": "Qwen2ForCausalLM",
    "qwen2_5_vl_text": "Qwen2ForCausalLM",
    "qwen2_5_omni_text": "Qwen2ForCausalLM",
    "qwen3_omni_moe_text": "Qwen3MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM",
    "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3n_text": "Gemma3nForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "granite": "GraniteForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4v_text": "Glm4ForCausalLM",
    "glm4v_moe_text": "Glm4MoeForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "mllama_text_model": "MllamaForCausalLM",
    "minimax_m3_text": "MiniMaxM3SparseForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "step3p5": "Step3p5ForCausalLM",
    "step3p7": "Step3p5ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
}
"""Text architecture of a nested text config, by its model_type."""

_ENCODERS: dict[str, tuple[Reader, str]] = {
    "LlavaForConditionalGeneration": (clip.read_llava, "LlamaForCausalLM"),
    "LlavaLlamaForCausalLM": (clip.read_llava, "LlamaForCausalLM"),
    "LlavaNextForConditionalGeneration": (clip.read_llava, "LlamaForCausalLM"),
    "LlavaNextVideoForConditionalGeneration": (clip.read_llava, "LlamaForCausalLM"),
    "Lfm2VlForConditionalGeneration": (clip.read_lfm2, "Lfm2ForCausalLM"),
    "LlavaOnevisionForConditionalGeneration": (clip.read_llava, "Qwen2ForCausalLM"),
    "VipLlavaForConditionalGeneration": (clip.read_llava, "LlamaForCausalLM"),
    "PixtralForConditionalGeneration": (native.read_pixtral, "MistralForCausalLM"),
    "Mistral3ForConditionalGeneration": (native.read_pixtral, "MistralForCausalLM"),
    "Gemma3ForConditionalGeneration": (clip.read_gemma3, "Gemma3ForCausalLM"),
    "PaliGemmaForConditionalGeneration": (clip.read_gemma3, "GemmaForCausalLM"),
    "Gemma4ForConditionalGeneration": (tiles.read_gemma4, "Gemma4ForCausalLM"),
    "Gemma3nForConditionalGeneration": (clip.read_gemma3, "Gemma3nForCausalLM"),
    "Idefics3ForConditionalGeneration": (clip.read_idefics3, "LlamaForCausalLM"),
    "SmolVLMForConditionalGeneration": (clip.read_idefics3, "LlamaForCausalLM"),
    "AyaVisionForConditionalGeneration": (clip.read_cohere_vision, "CohereForCausalLM"),
    "Cohere2VisionForConditionalGeneration": (clip.read_cohere_vision, "Cohere2ForCausalLM"),
    "Qwen2VLForConditionalGeneration": (native.read_qwen2_vl, "Qwen2ForCausalLM"),
    "Qwen2_5_VLForConditionalGeneration": (native.read_qwen2_vl, "Qwen2ForCausalLM"),
    "Qwen3VLForConditionalGeneration": (native.read_qwen3_vl, "Qwen3ForCausalLM"),
    "Qwen3VLMoeForConditionalGeneration": (native.read_qwen3_vl, "Qwen3MoeForCausalLM"),
    "Qwen3_5ForConditionalGeneration": (native.read_qwen3_vl, "Qwen3_5ForCausalLM"),
    "Qwen3_5MoeForConditionalGeneration": (native.read_qwen3_vl, "Qwen3_5MoeForCausalLM"),
    "Llama4ForConditionalGeneration": (tiles.read_llama4, "Llama4ForCausalLM"),
    "Qwen2_5OmniModel": (native.read_qwen2_vl, "Qwen2ForCausalLM"),
    "Qwen2_5OmniForConditionalGeneration": (native.read_qwen2_vl, "Qwen2ForCausalLM"),
    "Qwen3OmniMoeForConditionalGeneration": (native.read_qwen3_vl, "Qwen3MoeForCausalLM"),
    "KimiVLForConditionalGeneration": (native.read_moonvit, "DeepseekV3ForCausalLM"),
    "KimiK25ForConditionalGeneration": (native.read_moonvit, "DeepseekV3ForCausalLM"),
    "KimiK3ForConditionalGeneration": (native.read_moonvit, "KimiLinearForCausalLM"),
    "InternVLChatModel": (tiles.read_intern, "Qwen2ForCausalLM"),
    "InternVLForConditionalGeneration": (tiles.read_intern, "Qwen2ForCausalLM"),
    "InternS1ForConditionalGeneration": (tiles.read_intern, "Qwen3MoeForCausalLM"),
    "SkyworkR1VChatModel": (tiles.read_intern, "Qwen2ForCausalLM"),
    "H2OVLChatModel": (tiles.read_intern, "MistralForCausalLM"),
    "NVLM_D": (tiles.read_intern, "Qwen2ForCausalLM"),
    "Glm4vForConditionalGeneration": (native.read_glm4v, "Glm4ForCausalLM"),
    "Glm4vMoeForConditionalGeneration": (native.read_glm4v, "Glm4MoeForCausalLM"),
    "DeepseekVLV2ForCausalLM": (tiles.read_deepseek_vl2, "DeepseekV2ForCausalLM"),
    "Phi3VForCausalLM": (clip.read_phi3v, "Phi3ForCausalLM"),
    "MllamaForConditionalGeneration": (clip.read_mllama, "MllamaForCausalLM"),
}
"""Reader of the encoder, and the text architecture where the config does not say it."""

_HEARING = {
    "Qwen2_5OmniModel": audio.read_qwen_audio,
    "Qwen2_5OmniForConditionalGeneration": audio.read_qwen_audio,
    "Qwen3OmniMoeForConditionalGeneration": audio.read_qwen_audio,
}
"""Reader of a second encoder, for sound."""

_WITHIN = "thinker_config"
"""Where models that also speak keep the part that vLLM serves: what they think with."""


def known_multimodal() -> tuple[str, ...]:
    return tuple(sorted(_ENCODERS))


def text_part(name: str, config: Fields) -> tuple[str, Fields]:
    """The text architecture and its part of the config (the whole config for models that do not nest it)."""
    known = _ENCODERS.get(name)
    if known is None:
        return name, config
    text = _served(config).child(*_PARTS)
    if not text:
        return known[1], config
    named = text.texts("architectures", longest=16)
    if named and named[0] in TEXT_BY_TYPE.values():
        return named[0], text
    return TEXT_BY_TYPE.get(text.text("model_type"), known[1]), text


def towers(name: str, config: Fields, hidden: int, builder: Builder) -> tuple[Tower, ...]:
    """The encoders of a model with their projectors; none for text models."""
    known = _ENCODERS.get(name)
    if known is None:
        return ()
    served = _served(config)
    found = [known[0](Source(served, served.child("vision_config"), hidden, builder))]
    if name in _HEARING:
        found.append(_HEARING[name](Source(served, served.child("audio_config"), hidden, builder)))
    return tuple(found)


def _served(config: Fields) -> Fields:
    """The part of the config that vLLM serves."""
    return config.child(_WITHIN) if config.has(_WITHIN) else config
