from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE, FactSources
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Parallelism, Scheduling
from rayllm_ctl.workflows.plan.model import make_plan


def planned(**speculation: Any) -> Plan:
    args = {"speculative_config": speculation} if speculation else {}
    service = LLMService(
        "q",
        Model("Qwen/Qwen3-32B"),
        engine=Engine(args=args),
        accelerator=Accelerator(gpu="H100-80GB"),
        parallelism=Parallelism(2),
    )
    return make_plan(service, OFFLINE)


def test_a_draft_model_is_looked_up_like_the_model() -> None:
    alone, both = planned(), planned(method="draft_model", model="Qwen/Qwen3-0.6B", num_speculative_tokens=3)
    assert both.verdict == "fits"
    assert alone.memory is not None
    assert both.memory is not None
    assert 0.5e9 < both.memory.parameter_bytes - alone.memory.parameter_bytes < 0.8e9


def test_a_draft_model_that_nobody_knows_makes_the_plan_risky() -> None:
    plan = planned(model="nobody/knows-it")
    assert plan.verdict == "risky"
    assert "nobody/knows-it is not counted" in plan.reasons[0].message


def test_a_head_of_an_unknown_form_makes_the_plan_risky() -> None:
    plan = planned(method="medusa", model="nobody/knows-it")
    assert [reason.code for reason in plan.reasons] == ["draft-model-not-counted"]


@pytest.mark.parametrize(
    ("label", "value", "noted"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-Z9000", True),
        ("kubernetes.io/arch", "riscv64", True),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", False),
        ("node.kubernetes.io/instance-type", "new.48xlarge", False),
        ("team", "search", False),
    ],
)
def test_a_node_label_that_no_known_gpu_has_is_noted(label: str, value: str, noted: bool) -> None:
    service = LLMService(
        "q",
        Model("Qwen/Qwen3-8B"),
        accelerator=Accelerator(gpu="H100-80GB"),
        scheduling=Scheduling(node_selector={label: value}),
    )
    notes = [note for note in make_plan(service, OFFLINE).warnings if f"{label}={value}" in note]
    assert len(notes) == noted
    assert all("the planned GPU (H100-80GB) is not confirmed" in note for note in notes)


UNHEARD_OF = {
    "architectures": ["UnheardOfForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_a_draft_model_that_is_read_generically_makes_the_plan_risky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--own--draft"
    for folder in ("refs", "snapshots/abc"):
        (model / folder).mkdir(parents=True)
    (model / "refs" / "main").write_text("abc")
    (model / "snapshots" / "abc" / "config.json").write_text(json.dumps(UNHEARD_OF))
    plan = planned(method="draft_model", model="own/draft", num_speculative_tokens=3)
    assert (plan.verdict, [reason.code for reason in plan.reasons]) == ("risky", ["draft-read-generically"])
    assert "the draft model own/draft: the layers of" in plan.reasons[0].message


@pytest.mark.parametrize("kind", ["vllm", "transformers"])
def test_a_model_that_is_read_generically_takes_the_size_of_its_files(
    tmp_path: Path, kind: Literal["vllm", "transformers"]
) -> None:
    """Also on the Transformers engine, whose plan holds whole layers."""
    (tmp_path / "config.json").write_text(json.dumps(UNHEARD_OF))
    index = {"metadata": {"total_size": 5_000_000_000}, "weight_map": {"w": "model-00001-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    service = LLMService(
        "q", Model("own/model"), engine=Engine(kind=kind, max_model_len=8192), accelerator=Accelerator(gpu="L4")
    )  # fmt: skip
    plan = make_plan(service, FactSources(model_config=tmp_path))
    part = plan.transformers if kind == "transformers" else plan.memory
    assert part is not None
    assert part.weights_bytes == pytest.approx(5_000_000_000, rel=0.02)
    assert plan.verdict == ("fits" if kind == "transformers" else "risky")
