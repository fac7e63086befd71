from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.spec.batch import BatchJob, BatchModel, Input, Output, Sampling
from rayllm_ctl.model.spec.batch_service import service_of
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Load, Model, Parallelism
from rayllm_ctl.planner.engine.cpu import plan_cpu
from tests.planner.facts import dense

ENGINE = EngineFacts("0.29.0", (0, 29, 0))
TINY = dense(layers=2, hidden=256, heads=4, kv_heads=2, head_dim=64, intermediate=512, vocab=2048, max_model_len=2048)


def service(**engine: Any) -> LLMService:
    return LLMService(
        "tiny", Model("tiny", path="/models/tiny"), engine=Engine(**engine), accelerator=Accelerator("cpu")
    )


def test_a_model_that_only_the_pod_sees_is_not_proven() -> None:
    plan = plan_cpu(service(), ENGINE, None, "unknown")
    assert (plan.verdict, plan.proven) == ("risky", False)
    assert [reason.code for reason in plan.reasons] == ["model-not-visible"]
    assert plan.engine is not None
    assert plan.engine.max_num_batched_tokens >= plan.engine.max_model_len
    assert plan.engine.args["enforce_eager"] is True


def test_a_tiny_model_fits_and_keeps_what_the_user_set() -> None:
    plan = plan_cpu(service(max_model_len=512, max_num_seqs=4, args={"enforce_eager": False}), ENGINE, TINY, "file")
    assert (plan.verdict, plan.proven, plan.reasons) == ("fits", True, ())
    assert plan.engine is not None
    assert (plan.engine.max_model_len, plan.engine.max_num_seqs) == (512, 4)
    assert plan.engine.args == {"enforce_eager": False, "kv_cache_memory_bytes": GIB}
    assert plan.startup is not None
    assert plan.startup.download.high == 0


def test_a_step_has_a_token_for_each_sequence() -> None:
    for wanted, expected in (
        ({"max_num_seqs": 4096}, (4096, 4096)),
        ({"max_num_batched_tokens": 4}, (4, 4)),
        ({"max_num_batched_tokens": 64}, (8, 64)),
    ):
        engine = plan_cpu(service(**wanted), ENGINE, TINY, "file").engine
        assert engine is not None
        assert (engine.max_num_seqs, engine.max_num_batched_tokens) == expected


def test_a_step_that_cannot_hold_an_undivided_prompt_is_refused() -> None:
    plan = plan_cpu(service(max_num_batched_tokens=512, args={"enable_chunked_prefill": False}), ENGINE, TINY, "file")
    assert (plan.verdict, plan.reasons[0].code) == ("invalid", "step-below-context")
    assert plan.reasons[0].suggestion == "--max-model-len 512"


def test_a_context_above_the_models_is_refused() -> None:
    plan = plan_cpu(service(max_model_len=4096), ENGINE, TINY, "file")
    assert plan.verdict == "invalid"
    assert plan.reasons[0].suggestion == "--max-model-len 2048"


def test_a_context_that_the_cache_cannot_hold_is_refused_with_one_that_works() -> None:
    facts = dense()
    plan = plan_cpu(service(max_model_len=131072), ENGINE, facts, "file")
    assert (plan.verdict, plan.reasons[0].code) == ("does-not-fit", "kv-cache-too-small")
    works = int(plan.reasons[0].suggestion.split()[-1])
    assert plan_cpu(service(max_model_len=works), ENGINE, facts, "file").verdict == "fits"
    assert plan_cpu(service(max_model_len=works + 1), ENGINE, facts, "file").verdict == "does-not-fit"


def test_contradictions_are_refused_on_cpus_too() -> None:
    known = replace(ENGINE, arguments={"enforce_eager": "bool", "kv_cache_memory_bytes": "int|null"})
    plan = plan_cpu(service(args={"enforce_eagre": True}), known, TINY, "file")
    assert (plan.verdict, plan.reasons[0].code) == ("invalid", "unknown-engine-argument")
    odd = replace(service(), parallelism=Parallelism(3, 2))
    plan = plan_cpu(odd, ENGINE, TINY, "file")
    assert [reason.code for reason in plan.reasons] == ["no-pipeline-parallelism", "tensor-parallel-heads"]


def test_a_load_that_has_no_say_is_told() -> None:
    plan = plan_cpu(service(), ENGINE, TINY, "file")
    assert plan.notes == plan.warnings == ()
    loaded = replace(service(), load=Load(concurrency=5))
    assert "load" in plan_cpu(loaded, ENGINE, TINY, "file").warnings[0]


@pytest.mark.parametrize(
    ("context", "load", "suggestion"),
    [
        (None, Load(input_tokens=2000, output_tokens=100), "--input-tokens 1948"),
        (512, Load(input_tokens=600), "--max-model-len 601"),
        (512, Load(output_tokens=4000), "--max-model-len 2048 --output-tokens 2047"),
    ],
)
def test_a_load_above_the_context_is_refused(context: int | None, load: Load, suggestion: str) -> None:
    asked = replace(service(max_model_len=context), load=load)
    plan = plan_cpu(asked, ENGINE, TINY, "file")
    assert plan.verdict == "invalid"
    assert [(reason.code, reason.suggestion) for reason in plan.reasons] == [("load-above-context", suggestion)]


def test_a_load_above_the_context_is_refused_for_a_model_that_only_the_pod_sees() -> None:
    load = Load(input_tokens=2000, output_tokens=100)
    refused = plan_cpu(replace(service(max_model_len=512), load=load), ENGINE, None, "unknown")
    assert [(one.code, one.suggestion) for one in refused.reasons] == [("load-above-context", "--max-model-len 2100")]
    unnamed = plan_cpu(replace(service(), load=load), ENGINE, None, "unknown")
    assert unnamed.engine is not None
    assert unnamed.engine.max_model_len == 2100


def test_answers_of_a_batch_job_fit_into_its_context() -> None:
    job = BatchJob(
        "job", BatchModel("tiny"), Input(prompts=("hi",)), Output("/out"), sampling=Sampling(max_tokens=600),
        engine=Engine(max_model_len=512), accelerator=Accelerator("cpu"),
    )  # fmt: skip
    plan = plan_cpu(service_of(job), ENGINE, TINY, "file")
    assert [(one.code, one.suggestion) for one in plan.reasons] == [("load-above-context", "--max-model-len 601")]


def test_a_context_that_nobody_states_holds_the_load() -> None:
    facts, load = dense(layers=2), Load(input_tokens=6000, output_tokens=1000)
    plan = plan_cpu(replace(service(), load=load), ENGINE, facts, "file")
    assert plan.engine is not None
    assert (plan.verdict, plan.engine.max_model_len) == ("fits", 7000)
    assert plan.warnings[0].startswith("of the load, only the lengths of requests count")


def test_the_size_of_the_cache_comes_from_the_environment_first() -> None:
    plan = plan_cpu(service(env={"VLLM_CPU_KVCACHE_SPACE": "2"}), ENGINE, TINY, "file")
    assert plan.engine is not None
    assert plan.engine.args["kv_cache_memory_bytes"] == 2 * GIB
    both = {"env": {"VLLM_CPU_KVCACHE_SPACE": "2"}, "args": {"kv_cache_memory_bytes": 512 * 2**20}}
    contradiction = plan_cpu(service(**both), ENGINE, TINY, "file")
    assert contradiction.verdict == "invalid"
    assert "VLLM_CPU_KVCACHE_SPACE=2" in contradiction.reasons[0].message
    assert "kv_cache_memory_bytes=536870912" in contradiction.reasons[0].message
    same = {**both, "args": {"kv_cache_memory_bytes": 2 * GIB}}
    assert plan_cpu(service(**same), ENGINE, TINY, "file").verdict == "fits"
    assert plan_cpu(service(env={"VLLM_CPU_KVCACHE_SPACE": "lots"}), ENGINE, TINY, "file").verdict == "invalid"
    assert plan_cpu(service(args={"kv_cache_memory_bytes": "1G"}), ENGINE, TINY, "file").verdict == "invalid"


def test_a_draft_model_that_is_not_counted_is_named() -> None:
    found = plan_cpu(service(args={"speculative_config": {"model": "org/small"}}), ENGINE, dense(layers=2), "test")
    assert any("draft model org/small is not counted" in note for note in found.warnings)


def test_an_architecture_that_is_not_known_fits_for_sure_on_no_cpu() -> None:
    assumed = replace(dense(), assumed=("read by the usual fields",))
    plan = plan_cpu(service(), ENGINE, assumed, "test")
    assert plan.verdict == "risky"
    assert [reason.code for reason in plan.reasons] == ["model-read-generically"]
