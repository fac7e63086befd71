"""Encoders that every rank holds whole: with --mm-encoder-tp-mode data their items are divided, and not their weights.

vLLM takes it for models with supports_encoder_tp_data, and warns and divides the weights for all others
(config/model.py, models/interfaces.py). Read in 0.10.2 to 0.33, 0.11.0 excepted.
"""

from __future__ import annotations

from rayllm_ctl.model.plan.facts import ModelFacts

_Release = tuple[int, int, int]

_SINCE: dict[_Release, tuple[str, ...]] = {
    (0, 10, 2): (
        "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "KimiVLForConditionalGeneration",
        "Llama4ForConditionalGeneration", "MiniCPMO", "MiniCPMV", "Qwen2_5_VLForConditionalGeneration",
        "Step3VLForConditionalGeneration",
    ),
    (0, 11, 0): ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
    (0, 11, 1): (
        "DotsOCRForCausalLM", "H2OVLChatModel", "InternVLChatModel", "NVLM_D", "Qwen2VLForConditionalGeneration",
        "Tarsier2ForConditionalGeneration",
    ),
    (0, 12, 0): ("HunYuanVLForConditionalGeneration", "OpenCUAForConditionalGeneration"),
    (0, 14, 0): ("IsaacForConditionalGeneration",),
    (0, 15, 0): (
        "Eagle2_5_VLForConditionalGeneration", "KimiK25ForConditionalGeneration", "StepVLForConditionalGeneration",
    ),
    (0, 16, 0): ("GlmOcrForConditionalGeneration", "InternS1ProForConditionalGeneration"),
    (0, 17, 0): ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
    (0, 20, 0): ("Exaone4_5_ForConditionalGeneration",),
    (0, 21, 0): ("QianfanOCRForConditionalGeneration",),
    (0, 22, 0): ("InternS2PreviewForConditionalGeneration", "MiniCPMV4_6ForConditionalGeneration"),
    (0, 23, 0): ("Cosmos3ForConditionalGeneration", "Step3p7ForConditionalGeneration"),
    (0, 24, 0): ("MiniMaxM3SparseForConditionalGeneration",),
    (0, 26, 0): ("Cosmos3EdgeForConditionalGeneration",),
    (0, 27, 0): ("KimiK3ForConditionalGeneration",),
    (0, 28, 0): ("Dots3NoteForCausalLM", "InternS2MobiusForConditionalGeneration"),
    (0, 29, 0): ("Qwen4ExpForConditionalGeneration",),
    (0, 30, 0): (
        "CohereCompassForConditionalGeneration", "DeepseekV41ForCausalLM", "Glm5NextForConditionalGeneration",
    ),
    (0, 32, 0): ("MiniCPMV4_7ForConditionalGeneration",),
    (0, 33, 0): (
        "Alpamayo2Super", "MiniCPMOcrForConditionalGeneration", "MuseSparkForConditionalGeneration",
        "Step5ForConditionalGeneration",
    ),
}  # fmt: skip
"""Architectures by the first release whose class, or a class that it inherits from, says so."""


def spreads_items(facts: ModelFacts, release: _Release) -> bool:
    """Whether a version can spread the items of the model's encoders over the ranks."""
    return any(release >= since and facts.architecture in names for since, names in _SINCE.items())
