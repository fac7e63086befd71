"""Damaged configs and odd flags: what a planner must answer with a plan or a clear refusal, never with a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.plan import EngineSettings
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Load, Model, Parallelism, Replicas
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request

_DATA = Path(__file__).parents[1] / "data"


def sound_configs() -> list[Mapping[str, Any]]:
    """Configs to damage: those of the catalog, and of the architectures that only tests have a config of."""
    found = [model.config for model in models.models() if model.same_as is None]
    cases = json.loads((_DATA / "architectures.json").read_text(encoding="utf-8"))["cases"]
    found += [case["config"] for case in cases.values()]
    lines = (_DATA / "encoders.jsonl").read_text(encoding="utf-8").splitlines()
    return found + [json.loads(line)["config"] for line in lines]


def refused_of(configs: Sequence[Mapping[str, Any]], seed: int, count: int = 400) -> int:
    """How many of `count` damaged configs are refused; of the others the compact form gives equal facts."""
    rng, refused = random.Random(seed), 0
    for _ in range(count):
        config = damaged(rng.choice(configs), rng)
        try:
            facts = read_config(config)
        except UserError:
            refused += 1
            continue
        assert read_config(compact(config)) == facts
    return refused


_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 128, 2**31, 2**63, 10**30, -(10**18), 0.0, 0.5, -1.5, 1e300, float("inf"),
    float("nan"), "", "0", "8", "bfloat16", "float8", "nonsense", "\ud800", "x" * 5000, [], [0], [None, "a"], [[]], {},
    {"type": None}, {"rope_type": "yarn", "factor": 4.0}, {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "awq", "bits": 4, "group_size": 128}, {"quant_method": 7}, ["full_attention"] * 3,
    ["sliding_attention", "nonsense"],
)  # fmt: skip

_KEYS = (
    "architectures", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings", "rope_scaling", "rope_parameters",
    "torch_dtype", "dtype", "quantization_config", "sliding_window", "layer_types", "num_experts", "num_local_experts",
    "num_experts_per_tok", "moe_intermediate_size", "kv_lora_rank", "text_config", "vision_config",
    "tie_word_embeddings",
)  # fmt: skip


def damaged(config: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """`config` with one to five fields dropped, replaced, swapped or added, at any depth."""
    result: dict[str, Any] = copy.deepcopy(dict(config))
    for _ in range(rng.randint(1, 5)):
        _damage(result, rng)
    return result


def _damage(config: dict[str, Any], rng: random.Random) -> None:
    place = config
    while nested := [v for v in place.values() if isinstance(v, dict) and v]:
        if rng.random() < 0.5:
            break
        place = rng.choice(nested)
    keys = [key for key in place if isinstance(key, str)]
    action = rng.random()
    if action < 0.25 and keys:
        place.pop(rng.choice(keys))
    elif action < 0.65 and keys:
        place[rng.choice(keys)] = copy.deepcopy(rng.choice(_ODD))
    elif action < 0.85 and keys:
        key = rng.choice(keys)
        place[key] = _nudged(place[key], rng)
    else:
        place[rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_ODD))


def _nudged(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 3, 64, value, -value // 2))
    if isinstance(value, float):
        return value * rng.choice((0.0, -1.0, 1e-9, 1e9))
    if isinstance(value, list):
        return value[: rng.randint(0, len(value))] + value[:1] * rng.randint(0, 3)
    return rng.choice(_ODD)


def service(rng: random.Random, gpus: tuple[str, ...]) -> LLMService:
    """A service with random flags, most of them unset, some of them absurd."""

    def maybe(*values: Any, unset: float = 0.6) -> Any:
        return None if rng.random() < unset else rng.choice(values)

    args = {"enforce_eager": rng.choice((True, False))} if rng.random() < 0.2 else {}
    if rng.random() < 0.1:
        args["enable_chunked_prefill"] = rng.choice((True, False))
    if rng.random() < 0.1:
        args[rng.choice(("enable_lora", "max_loras", "block_size", "speculative_config", "nonsense"))] = rng.choice(
            _ODD
        )
    return LLMService(
        name="fuzz",
        model=Model("fuzz/model"),
        engine=Engine(
            max_model_len=maybe(1, 16, 1000, 8192, 131072, 10**7),
            dtype=maybe("auto", "bfloat16", "float16", "float32"),
            quantization=maybe("fp8", "awq", "gptq", "bitsandbytes", "nonsense", unset=0.8),
            kv_cache_dtype=maybe("auto", "fp8", "fp8_e5m2", "nvfp4", unset=0.8),
            gpu_memory_utilization=maybe(0.01, 0.5, 0.9, 0.95, 1.0),
            max_num_seqs=maybe(1, 7, 256, 1024, 5000, 10**6),
            max_num_batched_tokens=maybe(1, 512, 8192, 10**6),
            args=args,
        ),
        accelerator=Accelerator("gpu", rng.choice(gpus)),
        parallelism=Parallelism(maybe(1, 2, 3, 4, 8, 16, 1000), maybe(1, 2, 5, 100), maybe(False, True) is True),
        replicas=Replicas(1, rng.choice((1, 2))),
        load=Load(
            objective=maybe("cost", "throughput", "latency"),
            concurrency=maybe(1, 100, 10**6, unset=0.8),
            input_tokens=maybe(1, 4000, 10**7, unset=0.8),
            output_tokens=maybe(1, 500, 10**7, unset=0.8),
            ttft=maybe(1e-6, 0.5, 100.0, unset=0.8),
            tpot=maybe(1e-6, 0.05, 10.0, unset=0.8),
            rate=maybe(1e-3, 5.0, 1e6, unset=0.8),
        ),
    )


def outcome(config: Mapping[str, Any], asked: LLMService, version: str) -> str:
    """The verdict of a plan for `config`, or "refused" where the config is refused with a reason."""
    try:
        facts = read_config(config)
    except UserError:
        return "refused"
    catalog = gpus.load_gpus()
    wanted = asked.accelerator.gpu
    chosen = (catalog[wanted],) if wanted else tuple(catalog.values())
    plan = decide(Request(asked, facts, "fuzz", engine(version), chosen, tuple(catalog.values())), explain=True)
    json.dumps(to_json(plan))
    assert plan.verdict in ("fits", "risky", "does-not-fit", "invalid")
    assert plan.verdict == "fits" or plan.reasons
    if plan.runs and plan.engine is not None and not validate(asked):
        assert starts(plan.engine, chunked=engine(version).chunked_prefill)
    return plan.verdict


def starts(found: EngineSettings, *, chunked: bool) -> bool:
    """Whether vLLM's scheduler takes the sizes (SchedulerConfig.verify_max_model_len). chunked: by default."""
    split = found.args.get("enable_chunked_prefill", chunked)
    enough = found.max_num_batched_tokens >= found.max_num_seqs
    return enough and (split or found.max_num_batched_tokens >= found.max_model_len)
