"""Every architecture that vLLM serves is planned; what is not known of one, or does not agree, is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.catalog.engines import engine, engine_versions
from rayllm_ctl.catalog.gpus import load_gpus
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.catalog.modelconfig.decoders.registry import row_of
from rayllm_ctl.model.plan.facts import ModelFacts, Quantization, StateCache
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Parallelism
from rayllm_ctl.planner.memory.checkpoint import fitted, unexplained_bytes
from rayllm_ctl.planner.memory.shards import whole_weights
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request
from tests.planner.facts import dense, moe
from tests.planner.known import facts_of

NEWEST = engine(engine_versions()[-1])
GPUS = load_gpus()

USUAL: dict[str, Any] = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 8192,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16",
}  # fmt: skip
"""What nearly every config.json of a decoder states."""

MIXTURE = {**USUAL, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 1024}

SIGHT = {"hidden_size": 1152, "num_hidden_layers": 4, "num_attention_heads": 16, "image_size": 448, "patch_size": 14}


def plan(
    facts: ModelFacts, *, version: str = NEWEST.version, checkpoint: int | None = None, tp: int | None = None,
    pp: int | None = None, gpu: str = "H100-80GB", newest: str | None = None, **settings: Any,
) -> Plan:  # fmt: skip
    service = LLMService("test", Model("test/model"), engine=Engine(**settings), parallelism=Parallelism(tp, pp, False))
    return decide(
        Request(
            service, facts, "test", engine(version), (GPUS[gpu],), tuple(GPUS.values()), checkpoint_bytes=checkpoint,
            newest=engine(newest) if newest else None,
        )
    )  # fmt: skip


def codes(found: Plan) -> list[str]:
    return [reason.code for reason in found.reasons]


@pytest.mark.parametrize("shape", ["dense", "experts", "nested"])
def test_every_architecture_of_the_newest_release_is_planned(shape: str) -> None:
    """Nothing but its usual fields is known of a model, and its name refuses none."""
    text = MIXTURE if shape == "experts" else USUAL
    config = {"text_config": text, "vision_config": SIGHT, "torch_dtype": "bfloat16"} if shape == "nested" else text
    verdicts = {}
    for name in sorted(NEWEST.architectures):
        if shape == "nested" and row_of(name) is not None:
            continue  # a text model: its fields stand at the top
        verdicts[name] = plan(read_config({**config, "architectures": [name]}), tp=1).verdict
    assert len(verdicts) > 50
    assert {name: verdict for name, verdict in verdicts.items() if verdict not in ("fits", "risky")} == {}


def test_a_model_that_is_read_by_its_usual_fields_fits_for_sure_nowhere() -> None:
    unknown = read_config({**USUAL, "architectures": ["FlintForCausalLM"]})
    known = read_config({**USUAL, "architectures": ["LlamaForCausalLM"]})
    found, sure = plan(unknown, tp=1), plan(known, tp=1)
    assert (sure.verdict, found.verdict) == ("fits", "risky")
    assert codes(found) == ["model-read-generically"]
    assert '"FlintForCausalLM" are not known here' in found.reasons[0].message
    assert found.memory is not None
    assert sure.memory is not None
    widths = [memory.kv_cache_bytes.typical - memory.kv_cache_bytes.low for memory in (sure.memory, found.memory)]
    assert widths[1] > widths[0] + 2**29


def test_an_architecture_that_no_release_lists_is_left_to_the_transformers_backend() -> None:
    found = plan(replace(dense(), architecture="NobodyForCausalLM"), tp=1, newest=NEWEST.version)
    assert (found.verdict, codes(found)) == ("risky", ["transformers-backend"])
    assert "has no class for NobodyForCausalLM" in found.reasons[0].message
    later = plan(replace(dense(), architecture="FlintForCausalLM"), version="0.29.0", newest=NEWEST.version)
    assert (later.verdict, codes(later)) == ("invalid", ["architecture-unknown"])
    assert later.reasons[0].suggestion == f"--vllm-version {NEWEST.version}"


@pytest.mark.parametrize(
    "name", ["BertModel", "Qwen2ForRewardModel", "LlamaForSequenceClassification", "BertForTokenClassification"]
)
def test_a_pooling_model_is_refused_as_one(name: str) -> None:
    found = plan(read_config({**USUAL, "architectures": [name]}))
    assert (found.verdict, codes(found)) == ("invalid", ["architecture-pooling"])
    assert f"vLLM runs {name} as a pooling model" in found.reasons[0].message


def test_the_transformers_backend_is_planned_when_it_is_asked_for() -> None:
    found = plan(dense(), tp=1, args={"model_impl": "transformers"})
    assert (found.verdict, codes(found)) == ("risky", ["transformers-backend"])
    assert plan(dense(), tp=1, args={"model_impl": "auto"}).verdict == "fits"
    removed = replace(dense(), architecture="PersimmonForCausalLM")
    assert codes(plan(removed)) == ["architecture-removed"]
    assert plan(removed, tp=1, args={"model_impl": "transformers"}).verdict == "risky"
    assert codes(plan(dense(), version="0.6.4", args={"model_impl": "transformers"})) == ["unknown-engine-argument"]


def test_what_the_transformers_backend_lacks_is_refused_with_the_way_out() -> None:
    args = {"model_impl": "transformers"}
    packed = replace(dense(), quantization=Quantization("mxfp4", "mxfp4", 4))
    layer = replace(dense().layers[0], caches=(StateCache("gdn", ssm=(32, 128, 128)),))
    recurrent = replace(dense(), layers=(layer, *dense().layers[1:]))
    for facts, code in ((packed, "backend-quantization"), (recurrent, "backend-attention")):
        found = plan(facts, tp=1, args=args)
        assert (found.verdict, codes(found)) == ("invalid", [code])
        assert found.suggestions[0].flags == "without model_impl"


def test_the_transformers_backend_cuts_models_into_stages() -> None:
    whole = replace(dense(), architecture="WhisperForConditionalGeneration")
    assert whole.architecture in NEWEST.no_pipeline
    assert codes(plan(whole, pp=2)) == ["no-pipeline-parallelism"]
    assert plan(whole, pp=2, args={"model_impl": "transformers"}).verdict == "risky"


def described(facts: ModelFacts) -> int:
    return whole_weights(facts, facts.dtype)


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9, 1.4])
def test_layers_that_were_read_generically_fill_their_checkpoint(share: float) -> None:
    facts = read_config({**MIXTURE, "architectures": ["FlintForCausalLM"]})
    stored = int(share * described(facts))
    found = fitted(facts, stored)
    assert described(found) == pytest.approx(stored, rel=0.02)
    assert [layer.caches for layer in found.layers] == [layer.caches for layer in facts.layers]
    assert unexplained_bytes(found, stored) == 0
    assert bool(found.moe) is (share > 0.5), "experts shrink where that is enough"
    assert "weighed" in found.traits
    assert found.assumed[-1].endswith("GiB of its files")
    assert plan(found, tp=2, checkpoint=stored).verdict == "risky"


def test_a_generic_model_whose_files_lack_a_head_is_tied() -> None:
    facts = read_config({**USUAL, "vocab_size": 256000, "architectures": ["FlintForCausalLM"]})
    tied = replace(facts, tied_embeddings=True)
    found = fitted(facts, described(tied))
    assert found.tied_embeddings
    assert found.layers == facts.layers


def test_only_generic_models_are_fitted() -> None:
    facts = facts_of("Qwen/Qwen3-8B")
    assert fitted(facts, 10**9) is facts
    unknown = replace(moe(), traits=frozenset({"generic"}))
    assert fitted(unknown, None) is unknown
