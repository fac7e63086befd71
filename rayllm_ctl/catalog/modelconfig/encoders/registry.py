"""Finds the encoders of a multimodal architecture, which goes by the name in config.json's `architectures`.

Only the module that holds them is imported, as a command reads one model.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Reader, Source
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder


class MultiModalSpec(NamedTuple):
    """A row: the text architecture where the config does not state it, and the encoders of images and sound.

    Encoders are named as module:name: an EncoderSpec, or a reader where a row cannot state one. So is a text
    architecture that depends on the config. path: the names of each object on the way to the text model's part of the
    config, where it is not one of TEXT_PARTS.
    """

    text: str
    vision: str = ""
    audio: str = ""
    path: tuple[tuple[str, ...], ...] = ()


def text_architecture(spec: MultiModalSpec, config: Fields) -> str:
    if ":" not in spec.text:
        return spec.text
    choose: Callable[[Fields], str] = _named(spec.text)
    return choose(config)


def read_named(name: str, source: Source) -> MultiModalEncoder | None:
    """The encoder of this name in this config; None where the config has none."""
    from rayllm_ctl.catalog.modelconfig.encoders.spec import EncoderSpec, read_encoder

    row: EncoderSpec | Reader = _named(name)
    return read_encoder(row, source) if isinstance(row, EncoderSpec) else row(source)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"rayllm_ctl.catalog.modelconfig.encoders.{module}"), attribute)


ENCODERS: dict[str, MultiModalSpec] = {
    "LlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:read_llava"),
    "LlavaLlamaForCausalLM": MultiModalSpec("LlamaForCausalLM", "clip:read_llava"),
    "LlavaNextForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:LLAVA_NEXT"),
    "LlavaNextVideoForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:LLAVA_VIDEO"),
    "Lfm2VlForConditionalGeneration": MultiModalSpec("Lfm2ForCausalLM", "clip:LFM2"),
    "LlavaOnevisionForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "clip:LLAVA_ONEVISION"),
    "AriaForConditionalGeneration": MultiModalSpec("AriaTextModel", "clip:ARIA"),
    "Ernie4_5_VLMoeForConditionalGeneration": MultiModalSpec("Ernie4_5_VLMoeForCausalLM", "qwen_vl:ERNIE_VL"),
    "HfMoondream": MultiModalSpec("clip:moondream_text", "clip:read_moondream", path=(("config",), ("text",))),
    "Moondream3ForCausalLM": MultiModalSpec(
        "clip:moondream_text", "clip:read_moondream", path=(("config",), ("text",))
    ),
    "KananaVForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "qwen_vl:read_kanana"),
    "Llama_Nemotron_Nano_VL": MultiModalSpec("LlamaForCausalLM", "radio:read_llama_nemotron_vl"),
    "LlavaOnevision2ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:LLAVA_ONEVISION2"),
    "MolmoForCausalLM": MultiModalSpec("MolmoModel", "molmo:MOLMO"),
    "Molmo2ForConditionalGeneration": MultiModalSpec("Molmo2TextModel", "molmo:read_molmo2"),
    "MoonshotKimiaForCausalLM": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:read_kimi_audio"),
    "OpenPanguVLForConditionalGeneration": MultiModalSpec("PanguEmbeddedForCausalLM", "qwen_vl:PANGU_VL"),
    "Phi4ForCausalLMV": MultiModalSpec("Phi3ForCausalLM", "clip:PHI4_SIGLIP"),
    "VipLlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:read_llava"),
    "PixtralForConditionalGeneration": MultiModalSpec("MistralForCausalLM", "pixtral:PIXTRAL"),
    "Mistral3ForConditionalGeneration": MultiModalSpec("MistralForCausalLM", "pixtral:PIXTRAL"),
    "LightOnOCRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "pixtral:PIXTRAL"),
    "Gemma3ForConditionalGeneration": MultiModalSpec("Gemma3ForCausalLM", "clip:GEMMA3"),
    "PaliGemmaForConditionalGeneration": MultiModalSpec("GemmaForCausalLM", "clip:GEMMA3"),
    "Gemma4ForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", "tiles:GEMMA4"),
    "Gemma4UnifiedForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", "tiles:read_gemma4_unified"),
    "Gemma3nForConditionalGeneration": MultiModalSpec("Gemma3nForCausalLM", "clip:GEMMA3"),
    "Idefics3ForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:IDEFICS3"),
    "SmolVLMForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:IDEFICS3"),
    "AyaVisionForConditionalGeneration": MultiModalSpec("CohereForCausalLM", "clip:COHERE"),
    "Cohere2VisionForConditionalGeneration": MultiModalSpec("Cohere2ForCausalLM", "clip:COHERE"),
    "Qwen2VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:read_qwen2_vl"),
    "Qwen2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:read_qwen2_vl"),
    "OpenCUAForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:read_qwen2_vl"),
    "Exaone4_5_ForConditionalGeneration": MultiModalSpec("Exaone4ForCausalLM", "qwen_vl:read_qwen2_vl"),
    "HCXVisionV2ForCausalLM": MultiModalSpec("HyperCLOVAXForCausalLM", "qwen_vl:read_hyperclova"),
    "Qwen3VLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3VLMoeForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3_5ForConditionalGeneration": MultiModalSpec("Qwen3_5ForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3_5MoeForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen4ExpForConditionalGeneration": MultiModalSpec("Qwen4ExpForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS1ProForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS2MobiusForConditionalGeneration": MultiModalSpec("InternS2MobiusForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS2PreviewForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Llama4ForConditionalGeneration": MultiModalSpec("Llama4ForCausalLM", "tiles:LLAMA4"),
    "Qwen2_5OmniModel": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:read_qwen2_vl", "whisper:read_qwen_omni"),
    "Qwen2_5OmniForConditionalGeneration": MultiModalSpec(
        "Qwen2ForCausalLM", "qwen_vl:read_qwen2_vl", "whisper:read_qwen_omni"
    ),
    "Qwen3OmniMoeForConditionalGeneration": MultiModalSpec(
        "Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL", "whisper:read_qwen_omni"
    ),
    "Qwen3ASRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", audio="whisper:read_qwen_omni"),
    "Qwen3ASRRealtimeGeneration": MultiModalSpec("Qwen3ForCausalLM", audio="whisper:read_qwen_omni"),
    "KimiVLForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", "tiles:MOONVIT"),
    "KimiK25ForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", "tiles:MOONVIT"),
    "KimiK3ForConditionalGeneration": MultiModalSpec("KimiLinearForCausalLM", "tiles:MOONVIT"),
    "InternVLChatModel": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "InternVLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "InklingForConditionalGeneration": MultiModalSpec(
        "InklingForCausalLM", "inkling:read_inkling_image", "inkling:read_inkling_sound"
    ),
    "InternS1ForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", "tiles:INTERN"),
    "SkyworkR1VChatModel": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "H2OVLChatModel": MultiModalSpec("MistralForCausalLM", "tiles:INTERN"),
    "NVLM_D": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "QianfanOCRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "tiles:QIANFAN"),
    "Glm4vForConditionalGeneration": MultiModalSpec("Glm4ForCausalLM", "qwen_vl:GLM4V"),
    "Glm4vMoeForConditionalGeneration": MultiModalSpec("Glm4MoeForCausalLM", "qwen_vl:GLM4V"),
    "GlmOcrForConditionalGeneration": MultiModalSpec("Glm4ForCausalLM", "qwen_vl:GLM_OCR"),
    "GLM4VForCausalLM": MultiModalSpec("ChatGLMModel", "clip:EVA"),
    "HunYuanVLForConditionalGeneration": MultiModalSpec("HunYuanDenseV1ForCausalLM", "qwen_vl:HUNYUAN"),
    "DeepseekVLV2ForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", "tiles:DEEPSEEK_VL2"),
    "DeepseekOCRForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", "deepseek_ocr:DEEPSEEK_OCR"),
    "DeepseekOCR2ForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", "deepseek_ocr:DEEPSEEK_OCR2"),
    "UnlimitedOCRForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", "deepseek_ocr:UNLIMITED_OCR"),
    "DotsOCRForCausalLM": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:DOTS_OCR"),
    "PaddleOCRVLForConditionalGeneration": MultiModalSpec("Ernie4_5ForCausalLM", "clip:PADDLE_OCR"),
    "KeyeForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:KEYE"),
    "KeyeVL1_5ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:KEYE15"),
    "MiniCPMV": MultiModalSpec("minicpm:minicpmv_text", "minicpm:MINICPMV"),
    "MiniCPMO": MultiModalSpec("minicpm:minicpmo_text", "minicpm:MINICPMV", "whisper:MINICPM_O"),
    "MiniCPMV4_6ForConditionalGeneration": MultiModalSpec("Qwen3_5ForCausalLM", "minicpm:MINICPMV46"),
    "MiniMaxM3SparseForConditionalGeneration": MultiModalSpec("MiniMaxM3SparseForCausalLM", "clip:MINIMAX_M3"),
    "NemotronH_Nano_VL_V2": MultiModalSpec("NemotronHForCausalLM", "radio:read_nemotron_vl", "parakeet:read_parakeet"),
    "NemotronH_Nano_Omni_Reasoning_V3": MultiModalSpec(
        "NemotronHForCausalLM", "radio:read_nemotron_vl", "parakeet:read_parakeet"
    ),
    "NemotronH_Super_Omni_Reasoning_V3": MultiModalSpec(
        "NemotronHForCausalLM", "radio:read_nemotron_vl", "parakeet:read_parakeet"
    ),
    "NemotronH_Omni_Reasoning_V3": MultiModalSpec(
        "NemotronHForCausalLM", "radio:read_nemotron_vl", "parakeet:read_parakeet"
    ),
    "MiMoV2OmniForCausalLM": MultiModalSpec("MiMoV2FlashForCausalLM", "mimo:read_mimo_image", "mimo:read_mimo_sound"),
    "MuseGlimmerForCausalLM": MultiModalSpec("MuseGlimmerForCausalLM", "muse:read_muse_glimmer"),
    "MuseGlimmerForConditionalGeneration": MultiModalSpec("MuseGlimmerForCausalLM", "muse:read_muse_glimmer"),
    "Ovis": MultiModalSpec("Qwen2ForCausalLM", "tiles:read_ovis"),
    "Ovis2_5": MultiModalSpec("Qwen3ForCausalLM", "tiles:read_ovis25"),
    "Ovis2_6ForCausalLM": MultiModalSpec("Qwen3ForCausalLM", "tiles:read_ovis25"),
    "Ovis2_6_MoeForCausalLM": MultiModalSpec("Qwen3MoeForCausalLM", "tiles:read_ovis25"),
    "Step3VLForConditionalGeneration": MultiModalSpec("Step3TextForCausalLM", "step:STEP3"),
    "StepVLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "step:STEP_VL"),
    "Step3p7ForConditionalGeneration": MultiModalSpec("Step3p5ForCausalLM", "step:STEP_VL"),
    "RForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:R4B"),
    "BeeForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:BEE"),
    "Eagle2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "clip:EAGLE"),
    "IsaacForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:ISAAC"),
    "Blip2ForConditionalGeneration": MultiModalSpec("OPTForCausalLM", "qformer:BLIP2"),
    "Granite4VisionForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", "qformer:GRANITE4_VISION"),
    "Phi4MMForCausalLM": MultiModalSpec("Phi3ForCausalLM", "phi4:PHI4_IMAGE", "phi4:read_phi4_audio"),
    "Phi3VForCausalLM": MultiModalSpec("Phi3ForCausalLM", "clip:PHI3V"),
    "MllamaForConditionalGeneration": MultiModalSpec("MllamaForCausalLM", "mllama:MLLAMA"),
    "Qwen2AudioForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:QWEN2_AUDIO"),
    "AudioFlamingo3ForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:AUDIO_FLAMINGO"),
    "GraniteSpeechForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", audio="qformer:GRANITE_SPEECH"),
    "GraniteSpeechPlusForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", audio="qformer:GRANITE_SPEECH"),
    "GlmAsrForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", audio="whisper:GLM_ASR"),
    "UltravoxModel": MultiModalSpec("LlamaForCausalLM", audio="whisper:read_ultravox"),
    "VoxtralForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", audio="whisper:VOXTRAL"),
}
