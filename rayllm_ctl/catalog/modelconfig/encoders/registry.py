"""Which reader knows the encoders of which architecture. The name is that of config.json's `architectures`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rayllm_ctl.catalog.modelconfig.encoders import (
    audio,
    clip,
    documents,
    granite,
    inkling,
    merged,
    mimo,
    molmo,
    muse,
    native,
    ovis,
    parakeet,
    perception,
    phi4,
    qformer,
    radio,
    resampler,
    tiles,
    vit,
    whisper,
)
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Reader
from rayllm_ctl.catalog.modelconfig.fields import Fields


@dataclass(frozen=True)
class MultiModalSpec:
    """What a model has beside its decoder. `text`: its text architecture where the config does not say it.

    path: the names of each object on the way to the text model's part of the config, where it is not one of TEXT_PARTS.
    """

    text: str | Callable[[Fields], str]
    sees: Reader | None = None
    hears: Reader | None = None
    path: tuple[tuple[str, ...], ...] = ()


_NEMOTRON = MultiModalSpec("NemotronHForCausalLM", radio.read_nemotron_vl, parakeet.read_parakeet)

ENCODERS: dict[str, MultiModalSpec] = {
    "LlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_llava),
    "LlavaLlamaForCausalLM": MultiModalSpec("LlamaForCausalLM", clip.read_llava),
    "LlavaNextForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_llava_next),
    "LlavaNextVideoForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_llava_video),
    "Lfm2VlForConditionalGeneration": MultiModalSpec("Lfm2ForCausalLM", clip.read_lfm2),
    "LlavaOnevisionForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", clip.read_llava_onevision),
    "AriaForConditionalGeneration": MultiModalSpec("AriaTextModel", vit.read_aria),
    "Ernie4_5_VLMoeForConditionalGeneration": MultiModalSpec("Ernie4_5_VLMoeForCausalLM", merged.read_ernie_vl),
    "HfMoondream": MultiModalSpec(vit.moondream_text, vit.read_moondream, path=(("config",), ("text",))),
    "Moondream3ForCausalLM": MultiModalSpec(vit.moondream_text, vit.read_moondream, path=(("config",), ("text",))),
    "KananaVForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", merged.read_kanana),
    "Llama_Nemotron_Nano_VL": MultiModalSpec("LlamaForCausalLM", radio.read_llama_nemotron_vl),
    "LlavaOnevision2ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", merged.read_llava_onevision2),
    "MolmoForCausalLM": MultiModalSpec("MolmoModel", molmo.read_molmo),
    "Molmo2ForConditionalGeneration": MultiModalSpec("Molmo2TextModel", molmo.read_molmo2),
    "MoonshotKimiaForCausalLM": MultiModalSpec("Qwen2ForCausalLM", hears=whisper.read_kimi_audio),
    "OpenPanguVLForConditionalGeneration": MultiModalSpec("PanguEmbeddedForCausalLM", merged.read_pangu_vl),
    "Phi4ForCausalLMV": MultiModalSpec("Phi3ForCausalLM", vit.read_phi4_siglip),
    "VipLlavaForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_llava),
    "PixtralForConditionalGeneration": MultiModalSpec("MistralForCausalLM", native.read_pixtral),
    "Mistral3ForConditionalGeneration": MultiModalSpec("MistralForCausalLM", native.read_pixtral),
    "LightOnOCRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", native.read_pixtral),
    "Gemma3ForConditionalGeneration": MultiModalSpec("Gemma3ForCausalLM", clip.read_gemma3),
    "PaliGemmaForConditionalGeneration": MultiModalSpec("GemmaForCausalLM", clip.read_gemma3),
    "Gemma4ForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", tiles.read_gemma4),
    "Gemma4UnifiedForConditionalGeneration": MultiModalSpec("Gemma4ForCausalLM", tiles.read_gemma4_unified),
    "Gemma3nForConditionalGeneration": MultiModalSpec("Gemma3nForCausalLM", clip.read_gemma3),
    "Idefics3ForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_idefics3),
    "SmolVLMForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", clip.read_idefics3),
    "AyaVisionForConditionalGeneration": MultiModalSpec("CohereForCausalLM", clip.read_cohere_vision),
    "Cohere2VisionForConditionalGeneration": MultiModalSpec("Cohere2ForCausalLM", clip.read_cohere_vision),
    "Qwen2VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", native.read_qwen2_vl),
    "Qwen2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", native.read_qwen2_vl),
    "OpenCUAForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", native.read_qwen2_vl),
    "Exaone4_5_ForConditionalGeneration": MultiModalSpec("Exaone4ForCausalLM", native.read_qwen2_vl),
    "HCXVisionV2ForCausalLM": MultiModalSpec("HyperCLOVAXForCausalLM", native.read_hyperclova),
    "Qwen3VLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", native.read_qwen3_vl),
    "Qwen3VLMoeForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", native.read_qwen3_vl),
    "Qwen3_5ForConditionalGeneration": MultiModalSpec("Qwen3_5ForCausalLM", native.read_qwen3_vl),
    "Qwen3_5MoeForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", native.read_qwen3_vl),
    "Qwen4ExpForConditionalGeneration": MultiModalSpec("Qwen4ExpForCausalLM", native.read_qwen3_vl),
    "InternS1ProForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", native.read_qwen3_vl),
    "InternS2MobiusForConditionalGeneration": MultiModalSpec("InternS2MobiusForCausalLM", native.read_qwen3_vl),
    "InternS2PreviewForConditionalGeneration": MultiModalSpec("Qwen3_5MoeForCausalLM", native.read_qwen3_vl),
    "Llama4ForConditionalGeneration": MultiModalSpec("Llama4ForCausalLM", tiles.read_llama4),
    "Qwen2_5OmniModel": MultiModalSpec("Qwen2ForCausalLM", native.read_qwen2_vl, audio.read_qwen_audio),
    "Qwen2_5OmniForConditionalGeneration": MultiModalSpec(
        "Qwen2ForCausalLM", native.read_qwen2_vl, audio.read_qwen_audio
    ),
    "Qwen3OmniMoeForConditionalGeneration": MultiModalSpec(
        "Qwen3MoeForCausalLM", native.read_qwen3_vl, audio.read_qwen_audio
    ),
    "Qwen3ASRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", hears=audio.read_qwen_audio),
    "Qwen3ASRRealtimeGeneration": MultiModalSpec("Qwen3ForCausalLM", hears=audio.read_qwen_audio),
    "KimiVLForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", native.read_moonvit),
    "KimiK25ForConditionalGeneration": MultiModalSpec("DeepseekV3ForCausalLM", native.read_moonvit),
    "KimiK3ForConditionalGeneration": MultiModalSpec("KimiLinearForCausalLM", native.read_moonvit),
    "InternVLChatModel": MultiModalSpec("Qwen2ForCausalLM", tiles.read_intern),
    "InternVLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", tiles.read_intern),
    "InklingForConditionalGeneration": MultiModalSpec(
        "InklingForCausalLM", inkling.read_inkling_image, inkling.read_inkling_sound
    ),
    "InternS1ForConditionalGeneration": MultiModalSpec("Qwen3MoeForCausalLM", tiles.read_intern),
    "SkyworkR1VChatModel": MultiModalSpec("Qwen2ForCausalLM", tiles.read_intern),
    "H2OVLChatModel": MultiModalSpec("MistralForCausalLM", tiles.read_intern),
    "NVLM_D": MultiModalSpec("Qwen2ForCausalLM", tiles.read_intern),
    "QianfanOCRForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", tiles.read_qianfan),
    "Glm4vForConditionalGeneration": MultiModalSpec("Glm4ForCausalLM", native.read_glm4v),
    "Glm4vMoeForConditionalGeneration": MultiModalSpec("Glm4MoeForCausalLM", native.read_glm4v),
    "GlmOcrForConditionalGeneration": MultiModalSpec("Glm4ForCausalLM", native.read_glm_ocr),
    "GLM4VForCausalLM": MultiModalSpec("ChatGLMModel", vit.read_eva),
    "HunYuanVLForConditionalGeneration": MultiModalSpec("HunYuanDenseV1ForCausalLM", native.read_hunyuan),
    "DeepseekVLV2ForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", tiles.read_deepseek_vl2),
    "DeepseekOCRForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", documents.read_deepseek_ocr),
    "DeepseekOCR2ForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", documents.read_deepseek_ocr2),
    "UnlimitedOCRForCausalLM": MultiModalSpec("DeepseekV2ForCausalLM", documents.read_unlimited_ocr),
    "DotsOCRForCausalLM": MultiModalSpec("Qwen2ForCausalLM", documents.read_dots_ocr),
    "PaddleOCRVLForConditionalGeneration": MultiModalSpec("Ernie4_5ForCausalLM", documents.read_paddle_ocr),
    "KeyeForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", documents.read_keye),
    "KeyeVL1_5ForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", documents.read_keye15),
    "MiniCPMV": MultiModalSpec(resampler.minicpmv_text, resampler.read_minicpmv),
    "MiniCPMO": MultiModalSpec(resampler.minicpmo_text, resampler.read_minicpmv, resampler.read_minicpmo_audio),
    "MiniCPMV4_6ForConditionalGeneration": MultiModalSpec("Qwen3_5ForCausalLM", resampler.read_minicpmv46),
    "MiniMaxM3SparseForConditionalGeneration": MultiModalSpec("MiniMaxM3SparseForCausalLM", vit.read_minimax_m3),
    "NemotronH_Nano_VL_V2": _NEMOTRON,
    "NemotronH_Nano_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Super_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Omni_Reasoning_V3": _NEMOTRON,
    "MiMoV2OmniForCausalLM": MultiModalSpec("MiMoV2FlashForCausalLM", mimo.read_mimo_image, mimo.read_mimo_sound),
    "MuseGlimmerForCausalLM": MultiModalSpec("MuseGlimmerForCausalLM", muse.read_muse_glimmer),
    "MuseGlimmerForConditionalGeneration": MultiModalSpec("MuseGlimmerForCausalLM", muse.read_muse_glimmer),
    "Ovis": MultiModalSpec("Qwen2ForCausalLM", ovis.read_ovis),
    "Ovis2_5": MultiModalSpec("Qwen3ForCausalLM", ovis.read_ovis25),
    "Ovis2_6ForCausalLM": MultiModalSpec("Qwen3ForCausalLM", ovis.read_ovis25),
    "Ovis2_6_MoeForCausalLM": MultiModalSpec("Qwen3MoeForCausalLM", ovis.read_ovis25),
    "Step3VLForConditionalGeneration": MultiModalSpec("Step3TextForCausalLM", perception.read_step3),
    "StepVLForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", perception.read_step),
    "Step3p7ForConditionalGeneration": MultiModalSpec("Step3p5ForCausalLM", perception.read_step),
    "RForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", vit.read_r4b),
    "BeeForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", vit.read_bee),
    "Eagle2_5_VLForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", vit.read_eagle),
    "IsaacForConditionalGeneration": MultiModalSpec("Qwen3ForCausalLM", vit.read_isaac),
    "Blip2ForConditionalGeneration": MultiModalSpec("OPTForCausalLM", qformer.read_blip2),
    "Granite4VisionForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", qformer.read_granite4_vision),
    "Phi4MMForCausalLM": MultiModalSpec("Phi3ForCausalLM", phi4.read_phi4_image, phi4.read_phi4_audio),
    "Phi3VForCausalLM": MultiModalSpec("Phi3ForCausalLM", clip.read_phi3v),
    "MllamaForConditionalGeneration": MultiModalSpec("MllamaForCausalLM", clip.read_mllama),
    "Qwen2AudioForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", hears=whisper.read_qwen2_audio),
    "AudioFlamingo3ForConditionalGeneration": MultiModalSpec("Qwen2ForCausalLM", hears=whisper.read_audio_flamingo),
    "GraniteSpeechForConditionalGeneration": MultiModalSpec("GraniteForCausalLM", hears=granite.read_granite_speech),
    "GraniteSpeechPlusForConditionalGeneration": MultiModalSpec(
        "GraniteForCausalLM", hears=granite.read_granite_speech
    ),
    "GlmAsrForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", hears=whisper.read_glm_asr),
    "UltravoxModel": MultiModalSpec("LlamaForCausalLM", hears=whisper.read_ultravox),
    "VoxtralForConditionalGeneration": MultiModalSpec("LlamaForCausalLM", hears=whisper.read_voxtral),
}
"""By architecture."""
