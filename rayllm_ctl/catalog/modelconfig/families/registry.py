"""Which reader knows which text architecture. The name is that of config.json's `architectures`."""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.catalog.modelconfig.body import Body
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.families import (
    arctic,
    bailing,
    deepseek_v4,
    eagle,
    ernie_vl,
    gemma,
    hy_v4,
    inkling,
    latent,
    lightning,
    looped,
    mamba,
    mobius,
    molmo,
    moondream,
    olmo,
    pangu,
    plamo,
    pruned,
    qwen4,
    recurrent,
    shared,
    step3,
    uneven,
)
from rayllm_ctl.catalog.modelconfig.families.decoder import read_decoder
from rayllm_ctl.catalog.modelconfig.families.dense import DENSE
from rayllm_ctl.catalog.modelconfig.families.moe import MIXTURES
from rayllm_ctl.catalog.modelconfig.fields import Fields

Reader = Callable[[Fields, Builder], Body]

_OWN: dict[str, Reader] = {
    "DeepseekV2ForCausalLM": latent.read_deepseek,
    "DeepseekV3ForCausalLM": latent.read_deepseek,
    "DeepseekV32ForCausalLM": latent.read_deepseek,
    "GlmMoeDsaForCausalLM": latent.read_deepseek,
    "Glm4MoeLiteForCausalLM": latent.read_deepseek,
    "MistralLarge3ForCausalLM": latent.read_deepseek,
    "AXK1ForCausalLM": latent.read_deepseek,
    "PanguUltraMoEForCausalLM": latent.read_deepseek,
    "DeepseekV4ForCausalLM": deepseek_v4.read_deepseek_v4,
    "MiniCPM3ForCausalLM": latent.read_minicpm3,
    "KimiLinearForCausalLM": latent.read_kimi_linear,
    "MllamaForCausalLM": pruned.read_mllama,
    "Ernie4_5_VLMoeForCausalLM": ernie_vl.read_ernie_vl,
    "MolmoModel": molmo.read_molmo,
    "Molmo2TextModel": molmo.read_molmo2,
    "Moondream3TextModel": moondream.read_moondream,
    "LongcatFlashForCausalLM": latent.read_longcat,
    "Qwen3NextForCausalLM": recurrent.read_qwen_next,
    "Qwen3_5ForCausalLM": recurrent.read_qwen_next,
    "Qwen3_5MoeForCausalLM": recurrent.read_qwen_next,
    "InklingForCausalLM": inkling.read_inkling,
    "Qwen4ExpForCausalLM": qwen4.read_qwen4,
    "InternS2MobiusForCausalLM": mobius.read_mobius,
    "NemotronHForCausalLM": recurrent.read_nemotron_h,
    "NemotronHPuzzleForCausalLM": recurrent.read_nemotron_h,
    "FalconH1ForCausalLM": mamba.read_falcon_h1,
    "BambaForCausalLM": mamba.read_bamba,
    "GraniteMoeHybridForCausalLM": mamba.read_bamba,
    "JambaForCausalLM": mamba.read_jamba,
    "MambaForCausalLM": mamba.read_mamba,
    "FalconMambaForCausalLM": mamba.read_mamba,
    "Mamba2ForCausalLM": mamba.read_mamba,
    "Lfm2ForCausalLM": mamba.read_lfm2,
    "Lfm2MoeForCausalLM": mamba.read_lfm2,
    "Gemma3nForCausalLM": gemma.read_gemma3n,
    "Gemma4ForCausalLM": gemma.read_gemma4,
    "Llama4ForCausalLM": uneven.read_llama4,
    "MiMoV2FlashForCausalLM": uneven.read_mimo_v2,
    "MiMoV2ForCausalLM": uneven.read_mimo_v2,
    "Step3p5ForCausalLM": uneven.read_step,
    "Step3p7FlashForCausalLM": uneven.read_step,
    "DeciLMForCausalLM": pruned.read_deci,
    "MiniMaxM3SparseForCausalLM": uneven.read_minimax_m3,
    "MiniMaxM3ForCausalLM": uneven.read_minimax_m3,
    "LagunaForCausalLM": uneven.read_laguna,
    "LongcatFlashNgramForCausalLM": latent.read_longcat_ngram,
    "BailingMoeForCausalLM": bailing.read_bailing,
    "BailingMoeV2ForCausalLM": bailing.read_bailing,
    "SarvamMoEForCausalLM": bailing.read_bailing,
    "SarvamMLAForCausalLM": bailing.read_sarvam_latent,
    "BailingMoeV2_5ForCausalLM": bailing.read_bailing_linear,
    "BailingMoeV3ForCausalLM": bailing.read_bailing_delta,
    "HYV4ForCausalLM": hy_v4.read_hy_v4,
    "OuroForCausalLM": looped.read_ouro,
    "IQuestLoopCoderForCausalLM": looped.read_iquest_loop,
    "HrmTextForCausalLM": looped.read_hrm_text,
    "MiniMaxText01ForCausalLM": lightning.read_minimax_text,
    "MiniMaxM1ForCausalLM": lightning.read_minimax_text,
    "MiniMaxForCausalLM": lightning.read_minimax_text,
    "Zamba2ForCausalLM": shared.read_zamba2,
    "Plamo2ForCausalLM": plamo.read_plamo2,
    "OlmoHybridForCausalLM": olmo.read_olmo_hybrid,
    "PanguEmbeddedForCausalLM": pangu.read_pangu,
    "PanguProMoEV2ForCausalLM": pangu.read_pangu,
    "Step3TextForCausalLM": step3.read_step3,
    "ArcticForCausalLM": arctic.read_arctic,
    "LlamaForCausalLMEagle3": eagle.read_eagle3,
    "Eagle3LlamaForCausalLM": eagle.read_eagle3,
    "Eagle3Qwen2_5vlForCausalLM": eagle.read_eagle3,
    "Eagle3Qwen3vlForCausalLM": eagle.read_eagle3,
    "Eagle3Qwen3ForCausalLM": eagle.read_eagle3_qwen3,
}


def reader_of(architecture: str) -> Reader | None:
    """The reader of a text architecture, or None where none knows it."""
    own = _OWN.get(architecture)
    if own is not None:
        return own
    traits = DENSE.get(architecture) or MIXTURES.get(architecture)
    if traits is None:
        return None
    return lambda fields, builder: read_decoder(traits, fields, builder)


def known_architectures() -> tuple[str, ...]:
    """Every text architecture that can be read, sorted."""
    return tuple(sorted({*_OWN, *DENSE, *MIXTURES}))
