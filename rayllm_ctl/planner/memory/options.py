"""Engine arguments that change memory, read from what a user wrote; a value that vLLM would reject is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.planner.memory.drafts import as_count, as_mapping, speculation
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES


@dataclass(frozen=True)
class Options:
    """expert_parallel: experts are spread whole; redundant: of them, how many are loaded twice. data: ranks of data
    parallelism. cache_bytes: the KV cache that the user fixes, 0: what is left.

    offload: bytes of weights kept in host memory. lora_slots, lora_rank: adapters held at once (0: none).
    draft: whether multi-token-prediction layers are loaded; drafted: tokens guessed ahead.
    ssm_bytes: bytes per element of a recurrent state (0: the model's). images: whether encoders are loaded and run;
    videos: whether they may see videos. whole_encoders: whether every rank is to hold them whole.
    prefix_caching: None if the version decides. full_graphs: whether decoding is captured as a whole.
    """

    expert_parallel: bool = False
    redundant: int = 0
    data: int = 1
    cache_bytes: int = 0
    offload: int = 0
    lora_slots: int = 0
    lora_rank: int = 0
    draft: bool = False
    drafted: int = 0
    ssm_bytes: int = 0
    images: bool = True
    videos: bool = True
    whole_encoders: bool = False
    prefix_caching: bool | None = None
    full_graphs: bool = True


def read_options(args: Mapping[str, Any]) -> Options:
    """The options in engine arguments by vLLM's name."""
    guessing = speculation(args)
    lora = args.get("enable_lora") is True
    prefix = args.get("enable_prefix_caching")
    return Options(
        expert_parallel=args.get("enable_expert_parallel") is True,
        redundant=_redundant(args),
        data=as_count(args.get("data_parallel_size")) or 1,
        cache_bytes=as_count(args.get("kv_cache_memory_bytes")),
        offload=int(_number(args.get("cpu_offload_gb")) * GIB),
        lora_slots=(as_count(args.get("max_loras")) or 1) if lora else 0,
        lora_rank=(as_count(args.get("max_lora_rank")) or 16) if lora else 0,
        draft=guessing.own_layers,
        drafted=guessing.tokens,
        ssm_bytes=DTYPE_BYTES.get(str(args.get("mamba_ssm_cache_dtype", "")), 0),
        images=not _text_only(args),
        videos=as_mapping(args.get("limit_mm_per_prompt")).get("video") != 0,
        whole_encoders=args.get("mm_encoder_tp_mode") == "data",
        prefix_caching=prefix if isinstance(prefix, bool) else None,
        full_graphs=_full_graphs(args),
    )


def _redundant(args: Mapping[str, Any]) -> int:
    """Experts that load balancing loads a second time (eplb_config; num_redundant_experts before it)."""
    if args.get("enable_eplb") is not True:
        return 0
    balancing = as_mapping(args.get("eplb_config"))
    return as_count(balancing.get("num_redundant_experts", args.get("num_redundant_experts")))


def _text_only(args: Mapping[str, Any]) -> bool:
    """Whether the user turns images and video off; vLLM then builds no encoder."""
    if args.get("language_model_only") is True:
        return True
    limits = as_mapping(args.get("limit_mm_per_prompt"))
    return all(limits.get(kind) == 0 for kind in ("image", "video"))


def _full_graphs(args: Mapping[str, Any]) -> bool:
    """Whether CUDA graphs of whole decoding steps are captured, as vLLM does by default (config/compilation.py)."""
    mode = str(as_mapping(args.get("compilation_config")).get("cudagraph_mode") or "").upper()
    return args.get("enforce_eager") is not True and mode not in ("NONE", "PIECEWISE")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**20:
        return 0.0
    return float(value)
