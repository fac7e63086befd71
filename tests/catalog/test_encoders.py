"""Encoders of images and sound: a rank's tensors against vLLM's own, which text model an architecture has, refusals.

tests/data/encoders.jsonl: a line each, the fields of a config.json and the bytes of a rank's parameters at TP 1 and 2,
vLLM 0.29.0's own objects, made on torch's meta device (transformers 5.17). The configs are public hyper-parameters or
the defaults of transformers' classes; those called "-odd" turn the switches that these leave alone. Where a checkpoint
brings its own config class, a plain one with the same fields stood in for it; the encoder of Llama Nemotron Nano VL,
which the checkpoint brings too, is that of NVlabs/RADIO.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, size
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.quantizer import FP8_TENSOR
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.memory.overheads import load_extras
from rayllm_ctl.planner.memory.pages import CacheShape, pages_of
from rayllm_ctl.planner.memory.shards import ShardSettings, expert_tensors, stage_tensors, stages, tower_tensors
from tests.planner.mutate import refused_of

_SAMPLES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "encoders.jsonl").read_text().splitlines()
]
SAMPLES: dict[str, dict[str, Any]] = {sample["name"]: sample for sample in _SAMPLES}

UNCOUNTED = {"intern-s1-pro": 2 * 4 * 40 * 40 * 2}
"""Bytes that vLLM holds and the facts leave out: coefficients of InternS1-Pro's rotary embedding, 40 x 40 for sine and
cosine of each of four KV heads."""


def facts_of(name: str, **changes: Any) -> ModelFacts:
    return read_config({**SAMPLES[name]["config"], **changes})


def test_a_ranks_parameters_are_those_of_vllm() -> None:
    found, expected = {}, {}
    for name in SAMPLES:
        facts = facts_of(name)
        (stage,) = stages(facts, 1)
        for tensor in (1, 2):
            found[name, tensor] = sum(stage_tensors(facts, stage, ShardSettings(tensor)))
            expected[name, tensor] = SAMPLES[name]["parameters"][tensor - 1] - UNCOUNTED.get(name, 0) // tensor
    assert found == expected


@pytest.mark.parametrize(("tensor", "expected"), [(1, 914396128), (2, 503116144)])
def test_the_encoder_of_hunyuan_ocr(tensor: int, expected: int) -> None:
    """Of the encoder alone, from the classes of vLLM 0.20.0: 0.29 has the model through transformers only."""
    config = {
        "architectures": ["HunYuanVLForConditionalGeneration"],
        "model_type": "hunyuan_vl",
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 120818,
        "max_position_embeddings": 32768,
        "use_qk_norm": True,
        "tie_word_embeddings": True,
        "vision_config": {"hidden_size": 1152, "out_hidden_size": 1024, "max_image_size": 2048, "patch_size": 16},
    }
    (encoder,) = read_config(config).encoders
    assert sum(tower_tensors(encoder, ShardSettings(tensor))) == expected


def test_the_samples_hold_the_fields_that_are_read_and_no_others() -> None:
    configs = {name: sample["config"] for name, sample in SAMPLES.items()}
    assert {name: compact(config) for name, config in configs.items()} == configs


@pytest.mark.parametrize(
    ("expression", "expected"),
    [(7, 7), ("grid", 10), ("grid*tiles", 30), ("grid+2", 12), ("grid/4*tiles+text*2", 6 + 16), ("5*merge", 5)],
)
def test_a_size_is_a_sum_of_products_and_whole_quotients(expression: int | str, expected: int) -> None:
    source = EncoderSource(Fields({}), Fields({}), 8, Builder(None))
    assert EncoderScope(source, {"grid": 10, "tiles": size("tiles", 3)})[expression] == expected


@pytest.mark.parametrize(
    ("name", "senses"),
    [
        ("minicpm-o-4.5", ["image", "audio"]),
        ("qwen2.5-omni", ["image", "audio"]),
        ("ultravox-v0.5", ["audio"]),
        ("qwen3-asr-1.7b", ["audio"]),
        ("deepseek-ocr", ["image"]),
        ("nemotron-nano-vl", ["image"]),
        ("nemotron-nano-omni", ["image", "audio"]),
        ("mimo-v2.5-omni", ["image", "audio"]),
        ("muse-glimmer-odd", ["image"]),
        ("inkling", ["image", "audio"]),
    ],
)
def test_what_a_model_senses(name: str, senses: list[str]) -> None:
    facts = facts_of(name)
    assert [encoder.modality for encoder in facts.encoders] == senses
    assert all(encoder.tokens > 0 and encoder.patches > 0 for encoder in facts.encoders)


@pytest.mark.parametrize(
    ("name", "tokens", "patches"),
    [
        ("minicpm-v-2.6", 10 * 64, 10 * 32 * 32),
        ("dots.ocr", 14400, 57600),
        ("qwen2-audio", 750, 1500),
        ("step-vl-10b", 3085, 49360),
        ("glm-ocr", 6144, 24576),
        ("molmo-7b-d", 158 + 1302, 13 * 576),
        ("molmo2-4b", 212 + 1202, 9 * 729),
        ("ernie-4.5-vl-28b", 78 * 78, 4 * 78 * 78),
        ("moondream3", 730, 2 * 729),
        ("llama-nemotron-nano-vl", 13 * 256, 13 * 1024),
        ("kimi-audio-7b", 375, 1500),
        ("unlimited-ocr", 3553, 55296),
        ("muse-glimmer", 6912, 27648),
    ],
)
def test_the_largest_item_that_vllm_profiles(name: str, tokens: int, patches: int) -> None:
    (encoder,) = facts_of(name).encoders
    assert (encoder.tokens, encoder.patches) == (tokens, patches)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("minicpm-v-2.6", {"version": 2.0}, "version is '2.0', but must be one of 2.5, 2.6, 4.0, 4.5"),
        ("minicpm-v-2.6", {"version": []}, "version is"),
        ("minicpm-v-2.6", {"query_num": -64}, "query_num is -64"),
        ("minicpm-o-2.6", {"version": "4.0"}, "version is '4.0', but must be one of 2.6, 4.5"),
        ("minicpm-o-2.6", {"audio_pool_step": 0}, "audio_pool_step is 0"),
        ("ultravox-v0.5", {"stack_factor": 10**12}, "stack_factor"),
        ("nemotron-nano-omni", {"sound_config": {"subsampling_factor": 1}}, "sound_config.subsampling_factor is 1"),
        ("mimo-v2.5-omni", {"audio_config": {"speech_vocab_size": "1025-x"}}, "speech_vocab_size is '1025-x'"),
        ("mimo-v2.5-omni", {"audio_config": {"speech_vocab_size": "65-9"}}, "2 numbers for 8 audio_channels"),
        ("muse-glimmer", {"vision_config": {"adapter_dim": 0}}, "vision_config.adapter_dim is 0"),
        (
            "nemotron-nano-vl",
            {"vision_config": {"args": {"model": "vit_giant"}}},
            "vision_config.args.model is 'vit_giant'",
        ),
        ("llama-nemotron-nano-vl", {"vision_config": {"adaptor_names": ["clip"]}}, "adaptor_names is ['clip']"),
        ("granite-4-vision", {"downsample_rate": "8/4"}, "downsample_rate is '8/4'"),
        ("granite-4-vision", {"deepstack_layer_map": 4}, "deepstack_layer_map is 4"),
        ("eagle2.5-8b", {"select_layer": -28}, "select_layer is -28"),
        ("ovis2.5-9b", {"visual_vocab_size": 4}, "visual_vocab_size is 4"),
        (
            "phi-4-mm",
            {"audio_processor": {"name": "whisper"}},
            "audio_processor.name is 'whisper', but must be cascades",
        ),
        ("phi-4-mm", {"img_processor": {"layer_idx": 27}}, "img_processor.layer_idx is 27"),
        ("granite-speech-3.3", {"window_size": 0}, "window_size is 0"),
        ("ernie-vl-odd", {"moe_num_experts": [8, 16]}, "moe_num_experts is [8, 16]"),
        ("molmo-7b-d", {"intermediate_size": 1}, "intermediate_size is 1"),
        ("molmo2-4b", {"adapter_config": {"vit_layers": [27]}}, "vit_layers: entry is 27"),
        ("aria", {"projector_patch_to_query_dict": {"1225": "many"}}, "projector_patch_to_query_dict.1225 is 'many'"),
        ("openpangu-vl", {"vision_config": {"mm_unit_vision_select_layer": [3]}}, "entry is 3"),
        ("kanana-v", {"projector_config": {"depth": 10**6}}, "projector_config.depth is 1000000"),
        ("moondream3", {"model_type": "moondream1"}, "model_type is 'moondream1', but must be moondream3"),
        ("moondream3", {"config": {"text": {"moe": 4}}}, "moe is 4"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        facts_of(name, **changes)
    assert message in str(caught.value)
    assert caught.value.hints


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ultravox-v0.5", {"audio_config": None}, "no field audio_config"),
        ("nemotron-nano-vl", {"sound_config": {"hidden_size": 1024}}, "no field sound_config.projection_hidden_size"),
        ("inkling", {"vision_config": {"decoder_dmodel": 64}}, "no field vision_config.patch_size"),
        ("llama-nemotron-nano-vl", {"vision_config": {"args": {}}}, "no field vision_config.args.cpe_max_size"),
        ("gemma-4-unified", {"vision_config": None}, "no field vision_config"),
        ("glm-4v-9b", {"vision_config": {}}, "no field vision_config.hidden_size"),
        ("ernie-vl-odd", {"moe_layer_start_index": None}, "no field moe_layer_start_index"),
        ("phi-4-reasoning-vision", {"mm_hidden_size": None}, "no field mm_hidden_size"),
    ],
)
def test_what_a_field_is_missing_for_is_taken_by_the_usual_ones_or_not_counted(
    name: str, changes: dict[str, Any], message: str
) -> None:
    facts = facts_of(name, **changes)
    assert "generic" in facts.traits
    assert message in facts.assumed[0]


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("aria", 163840, 28),
        ("ernie-4.5-vl-28b", 32768, 28),
        ("molmo-7b-o", 262144, 32),
        ("molmo2-4b", 65536, 36),
        ("moondream3", 131072, 24),
    ],
)
@pytest.mark.parametrize("tensor", [1, 2])
def test_a_rank_keeps_the_pages_that_vllm_lays_out(name: str, size: int, count: int, tensor: int) -> None:
    """Of 16 tokens in bfloat16 (get_kv_cache_spec of the same objects)."""
    caches = [cache for layer in facts_of(name).layers for cache in layer.caches]
    pages = [pages_of(cache, CacheShape(tensor, 2, 2, 16)) for cache in caches]
    assert [(page.bytes, page.window) for page in pages] == [(size // tensor, 0)] * count


@pytest.mark.parametrize(
    ("name", "tables"),
    [("ernie-4.5-vl-28b", 28 * 4 * 131072 * 128), ("molmo2-odd", 2 * 65536 * 128), ("moondream3", 4096 * 32)],
)
def test_the_rotary_tables_are_those_of_vllm(name: str, tables: int) -> None:
    """Elements of the buffers of the same objects. ERNIE makes one for every layer, Molmo 2 one where it stretches."""
    facts = facts_of(name)
    (stage,) = stages(facts, 1)
    gpu = find_gpu("H100-80GB")
    assert sum(load_extras(facts, stage, ShardSettings(), release=(0, 29, 0), gpu=gpu, tokens=1)) == 2 * tables
    halves = [
        list(load_extras(facts, half, ShardSettings(), release=(0, 29, 0), gpu=gpu, tokens=1))
        for half in stages(facts, 2)
    ]
    assert sum(map(sum, halves)) == (2 * tables if facts.rotary[0].each_layer else 4 * tables)


@pytest.mark.parametrize(
    ("name", "tensor", "parameters"),
    [
        ("aria", 1, 25393572480),
        ("ernie-4.5-vl-28b", 1, 28896483424),
        ("ernie-4.5-vl-28b", 2, 14452820384),
        ("kimi-audio-7b", 2, 4471413632),
        ("molmo-7b-d", 1, 8708455168),
        ("molmo-7b-d", 2, 4354431872),
        ("molmo2-4b", 1, 5191075072),
        ("moondream3", 1, 17087463424),
        ("openpangu-vl", 2, 4363807616),
    ],
)
def test_a_decoder_in_fp8_blocks_takes_the_bytes_that_vllm_counts(name: str, tensor: int, parameters: int) -> None:
    """Measured as the others, without the encoder and four scales of a layer's attention that vLLM drops again."""
    blocks = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    facts = facts_of(name, quantization_config=blocks)
    (stage,) = stages(facts, 1)
    assert sum(stage_tensors(facts, stage, ShardSettings(tensor), encoders=False)) == parameters


def test_the_experts_of_moondream_stay_as_they_are() -> None:
    facts = facts_of("moondream3", quantization_config={"quant_method": "fp8"})
    online = ShardSettings(online=FP8_TENSOR)
    (experts,) = facts.layers[-1].experts
    assert sum(expert_tensors(experts, online)) == 2 * experts.parameters
    assert all(linear.scheme for linear in facts.layers[-1].linears if linear.name.startswith("attn.qkv"))


@pytest.mark.parametrize(
    ("name", "context", "steps", "patches"),
    [
        ("ernie-4.5-vl-28b", 131072, 20, 2 * 4 * 1156),
        ("ernie-4.5-vl-28b", 8192, 1, 2 * 4 * 1156),
        ("molmo2-4b", 36864, 384, 729),
    ],
)
def test_the_longest_video_that_vllm_profiles(name: str, context: int, steps: int, patches: int) -> None:
    """In steps of a frame, or of a pair for ERNIE (get_num_frames_with_most_features of each)."""
    video = facts_of(name).encoders[0].video
    assert video is not None
    assert (video.steps(context), video.patches) == (steps, patches)


def test_ernie_takes_experts_for_text_alone_to_write() -> None:
    text, images = facts_of("ernie-4.5-vl-28b").layers[-1].experts
    assert (text.top_k, images.top_k) == (6, 0)
    assert text.intermediate == 3 * images.intermediate


@pytest.mark.parametrize("kind", ["Nano_Omni", "Super_Omni", "Omni"])
def test_nemotrons_that_see_and_hear_are_of_one_kind(kind: str) -> None:
    name = f"NemotronH_{kind}_Reasoning_V3"
    assert facts_of("nemotron-nano-omni", architectures=[name]).encoders == facts_of("nemotron-nano-omni").encoders


def test_minicpm_takes_its_text_model_from_the_version() -> None:
    newer, older = facts_of("minicpm-v-4.5"), facts_of("minicpm-v-2.6")
    assert len(newer.layers[0].vectors) == 4, "Qwen 3 normalizes queries and keys"
    assert len(older.layers[0].vectors) == 2
    assert next(linear for linear in older.layers[0].linears if "qkv" in linear.name).bias


@pytest.mark.parametrize("name", ["llm.model.layers.0.self_attn.o_proj", "llm.model.layers.0.self_attn.o_*"])
def test_what_a_checkpoint_of_minicpm_leaves_alone_is_named_below_its_text_model(name: str) -> None:
    quantization = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": [name, "vpm"]}
    facts = facts_of("minicpm-v-2.6", quantization_config=quantization)
    plain = [[linear.name for linear in layer.linears if linear.scheme is None] for layer in facts.layers[:2]]
    assert plain == [["self_attn.o_proj"], []]


def test_damaged_configs_are_read_or_refused_and_compact_forms_agree() -> None:
    assert 40 < refused_of([sample["config"] for sample in _SAMPLES], seed=20261122) < 360
