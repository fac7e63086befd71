"""Finds the encoders of a multimodal architecture, which goes by the name in config.json's `architectures`.

Only the module that holds them is imported, as a command reads one model.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import EncoderSpec, read_encoder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import MultiModalEncoder

TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model_config")
"""Where a config may keep its text model."""

ENCODER_PARTS = (
    "vision_config", "visual", "vision_tower_config", "vit_config", "vision_encoder", "audio_config", "sound_config",
    "speech_config", "audio_encoder", "encoder_config", "audio_encoder_config",
)  # fmt: skip
"""Where a config may keep its encoders."""


class MultiModalSpec(NamedTuple):
    """A row: the text architecture where the config does not state it, and the encoders of images and sound.

    Encoders are named as module:name: an EncoderSpec, or what chooses or makes one by the config. So is a text
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


def read_named(name: str, source: EncoderSource) -> MultiModalEncoder | None:
    """The encoder of this name in this config; None if the config has none."""
    row: EncoderSpec | Callable[[EncoderSource], EncoderSpec] = _named(name)
    return read_encoder(row if isinstance(row, EncoderSpec) else row(source), source)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"rayllm_ctl.catalog.modelconfig.encoders.{module}"), attribute)


_MOONDREAM = MultiModalSpec("clip:moondream_text", "clip:MOONDREAM", path=(("config",), ("text",)))
_NEMOTRON = MultiModalSpec("NemotronHForCausalLM", "radio:NEMOTRON_VL", "conformer:PARAKEET")
_QWEN25_OMNI = MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:qwen2_vl", "whisper:qwen_omni")

ENCODERS: dict[str, MultiModalSpec] = {
    "LlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:llava"),
    "LlavaLlamaForCausalLM": MultiModalSpec("LlamaForCausalLM", "clip:llava"),
    "LlavaNextForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:LLAVA_NEXT"),
    "LlavaNextVideoForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:LLAVA_VIDEO"),
    "Lfm2VlForConditionalGeneration": MultiModalSpec("Lfm2ForCausalLM", "clip:LFM2"),
    "LlavaOnevisionForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "clip:LLAVA_ONEVISION"),
    "AriaForConditionalGeneration": MultiModalSpec("AriaTextModel", "clip:ARIA"),
    "Ernie4_5_VLMoeForConditionalGeneration": MultiModalSpec("Ernie4_5_VLMoeForCausalLM", "qwen_vl:ERNIE_VL"),
    "HfMoondream": _MOONDREAM,
    "Moondream3ForCausalLM": _MOONDREAM,
    "KananaVForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "qwen_vl:kanana"),
    "Llama_Nemotron_Nano_VL": MultiModalSpec("LlamaForCausalLM", "radio:llama_nemotron_vl"),
    "LlavaOnevision2ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:LLAVA_ONEVISION2"),
    "MolmoForCausalLM": MultiModalSpec("MolmoModel", "molmo:MOLMO"),
    "Molmo2ForConditionalGeneration": MultiModalSpec("Molmo2TextModel", "molmo:MOLMO2"),
    "MoonshotKimiaForCausalLM": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:KIMI_AUDIO"),
    "OpenPanguVLForConditionalGeneration": MultiModalSpec("PanguEmbeddedForCausalLM", "qwen_vl:PANGU_VL"),
    "Phi4ForCausalLMV": MultiModalSpec("Phi3ForCausalLM", "clip:PHI4_SIGLIP"),
    "VipLlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:llava"),
    "PixtralForConditionalGeneration": MultiModalSpec("MistralForCausalLM", "shaped:PIXTRAL"),
    "Mistral3ForConditionalGeneration": MultiModalSpec("MistralForCausalLM", "shaped:PIXTRAL"),
    "LightOnOCRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "shaped:PIXTRAL"),
    "Gemma3ForConditionalGeneration": MultiModalSpec("Gemma3ForCausalLM", "clip:GEMMA3"),
    "PaliGemmaForConditionalGeneration": MultiModalSpec("GemmaForCausalLM", "clip:GEMMA3"),
    "Gemma4ForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", "shaped:GEMMA4"),
    "Gemma4UnifiedForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", "shaped:GEMMA4_UNIFIED"),
    "Gemma3nForConditionalGeneration": MultiModalSpec("Gemma3nForCausalLM", "clip:GEMMA3"),
    "Idefics3ForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:IDEFICS3"),
    "SmolVLMForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", "clip:IDEFICS3"),
    "AyaVisionForConditionalGeneration": MultiModalSpec("CohereForCausalLM", "clip:COHERE"),
    "Cohere2VisionForConditionalGeneration": MultiModalSpec("Cohere2ForCausalLM", "clip:COHERE"),
    "Qwen2VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:qwen2_vl"),
    "Qwen2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:qwen2_vl"),
    "OpenCUAForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "qwen_vl:qwen2_vl"),
    "Exaone4_5_ForConditionalGeneration": MultiModalSpec("Exaone4ForCausalLM", "qwen_vl:qwen2_vl"),
    "HCXVisionV2ForCausalLM": MultiModalSpec("HyperCLOVAXForCausalLM", "qwen_vl:hyperclova"),
    "Qwen3VLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:QWEN3_VL"),
    # classes derived from Qwen3-VL's; their checkpoints hold parts that vLLM drops
    "Alpamayo2Super": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:QWEN3_VL"),
    "Cosmos3ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3VLMoeForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3_5ForConditionalGeneration": MultiModalSpec("Qwen3_5ForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen3_5MoeForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Qwen4ExpForConditionalGeneration": MultiModalSpec("Qwen4ExpForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS1ProForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS2MobiusForConditionalGeneration": MultiModalSpec("InternS2MobiusForCausalLM", "qwen_vl:QWEN3_VL"),
    "InternS2PreviewForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", "qwen_vl:QWEN3_VL"),
    "Llama4ForConditionalGeneration": MultiModalSpec("Llama4ForCausalLM", "tiles:LLAMA4"),
    "Qwen2_5OmniModel": _QWEN25_OMNI,
    "Qwen2_5OmniForConditionalGeneration": _QWEN25_OMNI,
    "Qwen3OmniMoeForConditionalGeneration": MultiModalSpec(
        "Qwen3MoeForCausalLM", "qwen_vl:QWEN3_VL", "whisper:qwen_omni"
    ),
    "Qwen3ASRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", audio="whisper:qwen_omni"),
    "Qwen3ASRRealtimeGeneration": MultiModalSpec("Qwen3ForCausalLM", audio="whisper:qwen_omni"),
    "KimiVLForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", "shaped:MOONVIT"),
    "KimiK25ForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", "shaped:MOONVIT"),
    "KimiK3ForConditionalGeneration": MultiModalSpec("KimiLinearForCausalLM", "shaped:MOONVIT"),
    "InternVLChatModel": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "InternVLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "tiles:INTERN"),
    "InklingForConditionalGeneration": MultiModalSpec(
        "InklingForCausalLM", "inkling:inkling_image", "inkling:INKLING_SOUND"
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
    "NemotronH_Nano_VL_V2": _NEMOTRON,
    "NemotronH_Nano_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Super_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Omni_Reasoning_V3": _NEMOTRON,
    "MiMoV2OmniForCausalLM": MultiModalSpec("MiMoV2FlashForCausalLM", "mimo:MIMO_IMAGE", "mimo:mimo_sound"),
    "MuseGlimmerForCausalLM": MultiModalSpec("MuseGlimmerForCausalLM", "shaped:MUSE"),
    "MuseGlimmerForConditionalGeneration": MultiModalSpec("MuseGlimmerForCausalLM", "shaped:MUSE"),
    "Ovis": MultiModalSpec("Qwen2ForCausalLM", "tiles:ovis"),
    "Ovis2_5": MultiModalSpec("Qwen3ForCausalLM", "tiles:OVIS25"),
    "Ovis2_6ForCausalLM": MultiModalSpec("Qwen3ForCausalLM", "tiles:OVIS25"),
    "Ovis2_6_MoeForCausalLM": MultiModalSpec("Qwen3MoeForCausalLM", "tiles:OVIS25"),
    "Step3VLForConditionalGeneration": MultiModalSpec("Step3TextForCausalLM", "tiles:STEP3"),
    "StepVLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "tiles:STEP_VL"),
    "Step3p7ForConditionalGeneration": MultiModalSpec("Step3p5ForCausalLM", "tiles:STEP_VL"),
    "RForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:R4B"),
    "BeeForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:BEE"),
    "Eagle2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", "clip:EAGLE"),
    "IsaacForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", "clip:ISAAC"),
    "Blip2ForConditionalGeneration": MultiModalSpec("OPTForCausalLM", "qformer:BLIP2"),
    "Granite4VisionForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", "qformer:GRANITE4_VISION"),
    "Phi4MMForCausalLM": MultiModalSpec("Phi3ForCausalLM", "tiles:PHI4_IMAGE", "conformer:PHI4_AUDIO"),
    "Phi3VForCausalLM": MultiModalSpec("Phi3ForCausalLM", "clip:PHI3V"),
    "MllamaForConditionalGeneration": MultiModalSpec("MllamaForCausalLM", "tiles:MLLAMA"),
    "Qwen2AudioForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:QWEN2_AUDIO"),
    "AudioFlamingo3ForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", audio="whisper:AUDIO_FLAMINGO"),
    "GraniteSpeechForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", audio="conformer:GRANITE_SPEECH"),
    "GraniteSpeechPlusForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", audio="conformer:GRANITE_SPEECH"),
    "GlmAsrForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", audio="whisper:GLM_ASR"),
    "UltravoxModel": MultiModalSpec("LlamaForCausalLM", audio="whisper:ULTRAVOX"),
    "VoxtralForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", audio="whisper:VOXTRAL"),
}
