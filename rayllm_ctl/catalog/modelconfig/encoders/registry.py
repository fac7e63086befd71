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
class Senses:
    """What a model has beside its decoder. `text`: its text architecture where the config does not say it.

    path: the names of each object on the way to the text model's part of the config, where it is not one of TEXT_PARTS.
    """

    text: str | Callable[[Fields], str]
    sees: Reader | None = None
    hears: Reader | None = None
    path: tuple[tuple[str, ...], ...] = ()


_NEMOTRON = Senses("NemotronHForCausalLM", radio.read_nemotron_vl, parakeet.read_parakeet)

ENCODERS: dict[str, Senses] = {
    "LlavaForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_llava),
    "LlavaLlamaForCausalLM": Senses("LlamaForCausalLM", clip.read_llava),
    "LlavaNextForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_llava_next),
    "LlavaNextVideoForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_llava_video),
    "Lfm2VlForConditionalGeneration": Senses("Lfm2ForCausalLM", clip.read_lfm2),
    "LlavaOnevisionForConditionalGeneration": Senses("Qwen2ForCausalLM", clip.read_llava_onevision),
    "AriaForConditionalGeneration": Senses("AriaTextModel", vit.read_aria),
    "Ernie4_5_VLMoeForConditionalGeneration": Senses("Ernie4_5_VLMoeForCausalLM", merged.read_ernie_vl),
    "HfMoondream": Senses(vit.moondream_text, vit.read_moondream, path=(("config",), ("text",))),
    "Moondream3ForCausalLM": Senses(vit.moondream_text, vit.read_moondream, path=(("config",), ("text",))),
    "KananaVForConditionalGeneration": Senses("LlamaForCausalLM", merged.read_kanana),
    "Llama_Nemotron_Nano_VL": Senses("LlamaForCausalLM", radio.read_llama_nemotron_vl),
    "LlavaOnevision2ForConditionalGeneration": Senses("Qwen3ForCausalLM", merged.read_llava_onevision2),
    "MolmoForCausalLM": Senses("MolmoModel", molmo.read_molmo),
    "Molmo2ForConditionalGeneration": Senses("Molmo2TextModel", molmo.read_molmo2),
    "MoonshotKimiaForCausalLM": Senses("Qwen2ForCausalLM", hears=whisper.read_kimi_audio),
    "OpenPanguVLForConditionalGeneration": Senses("PanguEmbeddedForCausalLM", merged.read_pangu_vl),
    "Phi4ForCausalLMV": Senses("Phi3ForCausalLM", vit.read_phi4_siglip),
    "VipLlavaForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_llava),
    "PixtralForConditionalGeneration": Senses("MistralForCausalLM", native.read_pixtral),
    "Mistral3ForConditionalGeneration": Senses("MistralForCausalLM", native.read_pixtral),
    "LightOnOCRForConditionalGeneration": Senses("Qwen3ForCausalLM", native.read_pixtral),
    "Gemma3ForConditionalGeneration": Senses("Gemma3ForCausalLM", clip.read_gemma3),
    "PaliGemmaForConditionalGeneration": Senses("GemmaForCausalLM", clip.read_gemma3),
    "Gemma4ForConditionalGeneration": Senses("Gemma4ForCausalLM", tiles.read_gemma4),
    "Gemma4UnifiedForConditionalGeneration": Senses("Gemma4ForCausalLM", tiles.read_gemma4_unified),
    "Gemma3nForConditionalGeneration": Senses("Gemma3nForCausalLM", clip.read_gemma3),
    "Idefics3ForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_idefics3),
    "SmolVLMForConditionalGeneration": Senses("LlamaForCausalLM", clip.read_idefics3),
    "AyaVisionForConditionalGeneration": Senses("CohereForCausalLM", clip.read_cohere_vision),
    "Cohere2VisionForConditionalGeneration": Senses("Cohere2ForCausalLM", clip.read_cohere_vision),
    "Qwen2VLForConditionalGeneration": Senses("Qwen2ForCausalLM", native.read_qwen2_vl),
    "Qwen2_5_VLForConditionalGeneration": Senses("Qwen2ForCausalLM", native.read_qwen2_vl),
    "OpenCUAForConditionalGeneration": Senses("Qwen2ForCausalLM", native.read_qwen2_vl),
    "Exaone4_5_ForConditionalGeneration": Senses("Exaone4ForCausalLM", native.read_qwen2_vl),
    "HCXVisionV2ForCausalLM": Senses("HyperCLOVAXForCausalLM", native.read_hyperclova),
    "Qwen3VLForConditionalGeneration": Senses("Qwen3ForCausalLM", native.read_qwen3_vl),
    "Qwen3VLMoeForConditionalGeneration": Senses("Qwen3MoeForCausalLM", native.read_qwen3_vl),
    "Qwen3_5ForConditionalGeneration": Senses("Qwen3_5ForCausalLM", native.read_qwen3_vl),
    "Qwen3_5MoeForConditionalGeneration": Senses("Qwen3_5MoeForCausalLM", native.read_qwen3_vl),
    "Qwen4ExpForConditionalGeneration": Senses("Qwen4ExpForCausalLM", native.read_qwen3_vl),
    "InternS1ProForConditionalGeneration": Senses("Qwen3MoeForCausalLM", native.read_qwen3_vl),
    "InternS2MobiusForConditionalGeneration": Senses("InternS2MobiusForCausalLM", native.read_qwen3_vl),
    "InternS2PreviewForConditionalGeneration": Senses("Qwen3_5MoeForCausalLM", native.read_qwen3_vl),
    "Llama4ForConditionalGeneration": Senses("Llama4ForCausalLM", tiles.read_llama4),
    "Qwen2_5OmniModel": Senses("Qwen2ForCausalLM", native.read_qwen2_vl, audio.read_qwen_audio),
    "Qwen2_5OmniForConditionalGeneration": Senses("Qwen2ForCausalLM", native.read_qwen2_vl, audio.read_qwen_audio),
    "Qwen3OmniMoeForConditionalGeneration": Senses("Qwen3MoeForCausalLM", native.read_qwen3_vl, audio.read_qwen_audio),
    "Qwen3ASRForConditionalGeneration": Senses("Qwen3ForCausalLM", hears=audio.read_qwen_audio),
    "Qwen3ASRRealtimeGeneration": Senses("Qwen3ForCausalLM", hears=audio.read_qwen_audio),
    "KimiVLForConditionalGeneration": Senses("DeepseekV3ForCausalLM", native.read_moonvit),
    "KimiK25ForConditionalGeneration": Senses("DeepseekV3ForCausalLM", native.read_moonvit),
    "KimiK3ForConditionalGeneration": Senses("KimiLinearForCausalLM", native.read_moonvit),
    "InternVLChatModel": Senses("Qwen2ForCausalLM", tiles.read_intern),
    "InternVLForConditionalGeneration": Senses("Qwen2ForCausalLM", tiles.read_intern),
    "InklingForConditionalGeneration": Senses(
        "InklingForCausalLM", inkling.read_inkling_image, inkling.read_inkling_sound
    ),
    "InternS1ForConditionalGeneration": Senses("Qwen3MoeForCausalLM", tiles.read_intern),
    "SkyworkR1VChatModel": Senses("Qwen2ForCausalLM", tiles.read_intern),
    "H2OVLChatModel": Senses("MistralForCausalLM", tiles.read_intern),
    "NVLM_D": Senses("Qwen2ForCausalLM", tiles.read_intern),
    "QianfanOCRForConditionalGeneration": Senses("Qwen3ForCausalLM", tiles.read_qianfan),
    "Glm4vForConditionalGeneration": Senses("Glm4ForCausalLM", native.read_glm4v),
    "Glm4vMoeForConditionalGeneration": Senses("Glm4MoeForCausalLM", native.read_glm4v),
    "GlmOcrForConditionalGeneration": Senses("Glm4ForCausalLM", native.read_glm_ocr),
    "GLM4VForCausalLM": Senses("ChatGLMModel", vit.read_eva),
    "HunYuanVLForConditionalGeneration": Senses("HunYuanDenseV1ForCausalLM", native.read_hunyuan),
    "DeepseekVLV2ForCausalLM": Senses("DeepseekV2ForCausalLM", tiles.read_deepseek_vl2),
    "DeepseekOCRForCausalLM": Senses("DeepseekV2ForCausalLM", documents.read_deepseek_ocr),
    "DeepseekOCR2ForCausalLM": Senses("DeepseekV2ForCausalLM", documents.read_deepseek_ocr2),
    "UnlimitedOCRForCausalLM": Senses("DeepseekV2ForCausalLM", documents.read_unlimited_ocr),
    "DotsOCRForCausalLM": Senses("Qwen2ForCausalLM", documents.read_dots_ocr),
    "PaddleOCRVLForConditionalGeneration": Senses("Ernie4_5ForCausalLM", documents.read_paddle_ocr),
    "KeyeForConditionalGeneration": Senses("Qwen3ForCausalLM", documents.read_keye),
    "KeyeVL1_5ForConditionalGeneration": Senses("Qwen3ForCausalLM", documents.read_keye15),
    "MiniCPMV": Senses(resampler.minicpmv_text, resampler.read_minicpmv),
    "MiniCPMO": Senses(resampler.minicpmo_text, resampler.read_minicpmv, resampler.read_minicpmo_audio),
    "MiniCPMV4_6ForConditionalGeneration": Senses("Qwen3_5ForCausalLM", resampler.read_minicpmv46),
    "MiniMaxM3SparseForConditionalGeneration": Senses("MiniMaxM3SparseForCausalLM", vit.read_minimax_m3),
    "NemotronH_Nano_VL_V2": _NEMOTRON,
    "NemotronH_Nano_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Super_Omni_Reasoning_V3": _NEMOTRON,
    "NemotronH_Omni_Reasoning_V3": _NEMOTRON,
    "MiMoV2OmniForCausalLM": Senses("MiMoV2FlashForCausalLM", mimo.read_mimo_image, mimo.read_mimo_sound),
    "MuseGlimmerForCausalLM": Senses("MuseGlimmerForCausalLM", muse.read_muse_glimmer),
    "MuseGlimmerForConditionalGeneration": Senses("MuseGlimmerForCausalLM", muse.read_muse_glimmer),
    "Ovis": Senses("Qwen2ForCausalLM", ovis.read_ovis),
    "Ovis2_5": Senses("Qwen3ForCausalLM", ovis.read_ovis25),
    "Ovis2_6ForCausalLM": Senses("Qwen3ForCausalLM", ovis.read_ovis25),
    "Ovis2_6_MoeForCausalLM": Senses("Qwen3MoeForCausalLM", ovis.read_ovis25),
    "Step3VLForConditionalGeneration": Senses("Step3TextForCausalLM", perception.read_step3),
    "StepVLForConditionalGeneration": Senses("Qwen3ForCausalLM", perception.read_step),
    "Step3p7ForConditionalGeneration": Senses("Step3p5ForCausalLM", perception.read_step),
    "RForConditionalGeneration": Senses("Qwen3ForCausalLM", vit.read_r4b),
    "BeeForConditionalGeneration": Senses("Qwen3ForCausalLM", vit.read_bee),
    "Eagle2_5_VLForConditionalGeneration": Senses("Qwen2ForCausalLM", vit.read_eagle),
    "IsaacForConditionalGeneration": Senses("Qwen3ForCausalLM", vit.read_isaac),
    "Blip2ForConditionalGeneration": Senses("OPTForCausalLM", qformer.read_blip2),
    "Granite4VisionForConditionalGeneration": Senses("GraniteForCausalLM", qformer.read_granite4_vision),
    "Phi4MMForCausalLM": Senses("Phi3ForCausalLM", phi4.read_phi4_image, phi4.read_phi4_audio),
    "Phi3VForCausalLM": Senses("Phi3ForCausalLM", clip.read_phi3v),
    "MllamaForConditionalGeneration": Senses("MllamaForCausalLM", clip.read_mllama),
    "Qwen2AudioForConditionalGeneration": Senses("Qwen2ForCausalLM", hears=whisper.read_qwen2_audio),
    "AudioFlamingo3ForConditionalGeneration": Senses("Qwen2ForCausalLM", hears=whisper.read_audio_flamingo),
    "GraniteSpeechForConditionalGeneration": Senses("GraniteForCausalLM", hears=granite.read_granite_speech),
    "GraniteSpeechPlusForConditionalGeneration": Senses("GraniteForCausalLM", hears=granite.read_granite_speech),
    "GlmAsrForConditionalGeneration": Senses("LlamaForCausalLM", hears=whisper.read_glm_asr),
    "UltravoxModel": Senses("LlamaForCausalLM", hears=whisper.read_ultravox),
    "VoxtralForConditionalGeneration": Senses("LlamaForCausalLM", hears=whisper.read_voxtral),
}
"""By architecture."""
