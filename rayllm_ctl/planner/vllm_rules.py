"""What changed between releases of vLLM, as far as plans depend on it: one entry for each rule.

An entry states the releases in which it holds and the source it was read from; files are those below `vllm/`. What
wheels state themselves (architectures, arguments, defaults) is read from them into catalog/data/engines.json instead.
`make knowledge VLLM=...` lists these entries for a new release, because each file is to be read again.
"""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class VersionRule:
    """since: the first release in which it holds; until: the first one in which it no longer does (None: it still
    does). source: the files, and the releases in which they were read."""

    since: tuple[int, int, int]
    source: str
    until: tuple[int, int, int] | None = None

    def holds(self, release: tuple[int, ...]) -> bool:
        return self.since <= release and (self.until is None or release < self.until)


_EVER = (0, 0, 0)
"""Since before the oldest release of the catalog."""

_CACHE = "v1/core/kv_cache_utils.py and envs.py of each release"
_RUNNER = (
    "config/vllm.py use_v2_model_runner, _get_v2_model_runner_unsupported_features; read in 0.25, 0.26 and 0.28 to 0.33"
)
_STATES = "config/model.py is_prefix_caching_supported, engine/arg_utils.py; read in 0.17, 0.25 to 0.29 and 0.32"

# The layout of the KV cache.

GROUPS_MAY_GROW_BY_A_QUARTER = VersionRule((0, 12, 0), _CACHE)
"""Groups of layers are as large as the largest kind if that has less than 1.25 times the layers of the smallest."""

GROUPS_MAY_GROW_BY_HALF = VersionRule((0, 18, 0), _CACHE)
"""The same with 1.5 times."""

CHUNKS_ARE_KEPT_WHOLE = VersionRule(_EVER, _CACHE, until=(0, 14, 0))
"""Chunked local attention keeps whole chunks."""

TOKENS_FOLLOW_CONCURRENCY = VersionRule((0, 21, 0), _CACHE)
"""The printed tokens are the concurrency times the length of a request."""

ONE_BLOCK_IS_NULL = VersionRule((0, 29, 0), _CACHE)

SLOTS = VersionRule((0, 20, 0), _CACHE)
"""Pages of several sizes (DeepSeek V4) share slots of a block."""

SLOTS_BY_SIZE = VersionRule((0, 23, 0), _CACHE)
PAGES_IN_TUPLES = VersionRule((0, 27, 0), _CACHE)
PAGES_IN_WHOLE_BLOCKS = VersionRule((0, 29, 0), _CACHE)

BATCHES_OVERLAP = VersionRule((0, 26, 0), "async scheduling; v1/core/kv_cache_utils.py")
"""Sliding windows keep blocks for the tokens of every concurrent batch, not of one."""

MODELOPT_SETS_THE_CACHE_DTYPE = VersionRule((0, 14, 0), "utils/torch_utils.py")
"""kv_cache_dtype "auto" follows a checkpoint of ModelOpt, as it does one of compressed-tensors."""

SPARSE_LATENT_STAYS_PLAIN_ON_BLACKWELL = VersionRule(
    (0, 17, 0),
    "platforms/cuda.py _get_backend_priorities, mla_attention.py; read in 0.17, 0.19, 0.21, 0.26 and 0.29",
)
"""FlashInfer's kernel, which is preferred for fp8 caches on Blackwell servers, keeps plain fp8."""

BLOCKS_OF_128_FOR_LATENT_ON_BLACKWELL = VersionRule(_EVER, "platforms/cuda.py", until=(0, 12, 0))
BLOCKS_OF_64_FOR_LATENT_ON_HOPPER = VersionRule(_EVER, "platforms/cuda.py", until=(0, 17, 0))

# Recurrent state.

PREFIXES_OF_STATES = VersionRule((0, 11, 0), _STATES)
"""Prefix caching can hold recurrent state."""

PREFIXES_OF_STATES_BY_DEFAULT = VersionRule((0, 28, 0), _STATES)
"""Hybrids cache prefixes by default: before 0.26 it is not supported for them, in 0.26 and 0.27 it is opt-in
(engine/arg_utils.py, "and not model_config.is_hybrid")."""

STATE_OF_EVERY_BLOCK = VersionRule(_EVER, "models/config.py MambaModelConfig", until=(0, 28, 0))
"""Mamba mixers that opt in to prefix caching take mode "all": a state for each block of tokens."""

TWO_STATES = VersionRule((0, 14, 0), _STATES)
"""Mode "align" keeps two blocks of state."""

STATE_OF_A_CHECKPOINT = VersionRule((0, 30, 0), "mamba_mixer2.py")
"""A Mamba mixer keeps one more block for a checkpoint."""

GRAPHS_REQUIRE_STATES = VersionRule(
    (0, 20, 0),
    "config/compilation.py resolve_cudagraph_mode_and_sizes, kv_cache_interface.py has_mamba_layers; "
    "read in 0.20, 0.26 and 0.33",
)
"""A start with full CUDA graphs fails unless there is a block of recurrent state for each of max_num_seqs. 0.18 and
0.19 capture smaller batches instead."""

STATES_WARM_UP = VersionRule((0, 26, 0), "vllm#50780")
"""The warm-up of recurrent layers is charged to the profile run."""

# The model runner.

RUNNER_IS_CHOSEN_BY_VARIABLE = VersionRule((0, 17, 0), "envs.py VLLM_USE_V2_MODEL_RUNNER")
SPARSE_LATENT_ON_ROCM_TAKES_THE_FIRST = VersionRule((0, 29, 0), _RUNNER)
SECOND_RUNNER_DRAFTS = VersionRule((0, 30, 0), _RUNNER)
"""The second runner supports methods of speculative decoding beyond EAGLE, MTP and DFlash, except those listed."""

SECOND_RUNNER_DRAFTS_IN_STAGES = VersionRule((0, 30, 0), _RUNNER)
"""EAGLE 3 with pipeline stages."""

SECOND_RUNNER_DRAFTS_BY_MODEL = VersionRule((0, 31, 0), _RUNNER)
SECOND_RUNNER_DRAFTS_BY_NGRAM = VersionRule((0, 32, 0), _RUNNER)
SECOND_RUNNER_DRAFTS_BY_HEADS = VersionRule((0, 33, 0), _RUNNER)
"""Medusa and MLP speculators."""

SECOND_RUNNER_TAKES_LOGITS_PROCESSORS = VersionRule((0, 31, 0), _RUNNER)
SECOND_RUNNER_TAKES_PROMPT_EMBEDS = VersionRule((0, 29, 0), _RUNNER)
SECOND_RUNNER_SHARES_KV = VersionRule((0, 30, 0), _RUNNER)
"""kv_sharing_fast_prefill."""

SECOND_RUNNER_RETURNS_EXPERTS = VersionRule((0, 29, 0), _RUNNER)
SECOND_RUNNER_GIVES_LOGITS = VersionRule((0, 26, 0), _RUNNER)
"""logprobs_mode raw_logits and processed_logits."""

# The profile run.

SAMPLER_SELECTS = VersionRule((0, 17, 0), "v1/sample/ops/topk_topp_sampler.py; logs of 0.11 to 0.19 on H100")
"""The sampler selects with a Triton kernel; before it sorts, for which its warm-up needs memory in pieces."""

FLASHINFER_SAMPLES = VersionRule(_EVER, "v1/sample/ops/topk_topp_sampler.py, vllm#26859", until=(0, 11, 1))
"""FlashInfer's sampler is the default where it is installed, in place of the sorting one."""

FLASHINFER_IS_ASKED_FOR = VersionRule((0, 11, 1), "envs.py VLLM_USE_FLASHINFER_SAMPLER", until=(0, 21, 0))
"""It is used, and warmed up alone, only where the variable asks for it."""

COLD_STARTS_TAKE_MORE = VersionRule((0, 28, 0), "logs of L40S and L4, 0.28 and 0.29")
"""Whether a first start takes more than a later one on large GPUs is not known."""

EXPERTS_SHARE_A_WORKSPACE = VersionRule((0, 13, 0), "fused_moe/modular_kernel.py, v1/worker/workspace.py")
"""The workspace of modular kernels is kept beside the sampler's peak."""

VIDEOS_ARE_EXPANDED = VersionRule(
    _EVER, "models/qwen3_vl.py get_max_video_tokens; read in 0.11 and 0.12", until=(0, 12, 0)
)
"""Outputs of encoders with deepstack are expanded to the tokens of the longest video."""

# Weights and what is set aside with them.

ALL_REDUCE_IS_FUSED = VersionRule(
    (0, 17, 0),
    "config/vllm.py enable_allreduce_rms_fusion; read in 0.12, 0.17, 0.19, 0.21, 0.26, 0.29 and 0.32",
)
"""On Hopper and Blackwell servers the all-reduce is fused with the norm after it through FlashInfer's workspace."""

ALL_REDUCE_IS_FUSED_IN_STAGES = VersionRule((0, 21, 0), ALL_REDUCE_IS_FUSED.source)
"""Also with pipeline stages."""

CONTEXT_GREW = VersionRule((0, 18, 0), "logs of 0.11 to 0.19 on H100")
"""One GPU has 0.25 GiB outside torch, before it 0.13."""

AWQ_GREW = VersionRule(
    (0, 24, 0), "quantization/auto_awq.py replaced awq_marlin.py; a log of Qwen3-14B-AWQ on L40S, 0.28"
)
"""AWQ weights take more than their tensors. The cause is not known."""

ROPE_OF_SECTIONS_IS_LONG = VersionRule(_EVER, "rotary_embedding/mrope.py", until=(0, 32, 0))
"""A rope in three dimensions has a table four times as long."""

FLASHINFER_LATENT_WORKSPACE = VersionRule((0, 11, 0), "three logs of latent attention", until=(0, 25, 0))
"""FlashInfer's 128 MiB for MLA, made at import."""

CUTLASS_LATENT_WORKSPACE = VersionRule((0, 11, 0), "v1/attention/backends/mla")
"""CUTLASS's as much on Blackwell."""

ONLINE_FP8_BY_LAYER = VersionRule((0, 16, 0), 'quantization/fp8.py, device="meta"; vllm#31914; not in 0.15.1')
"""--quantization fp8 makes each layer when it is read; before, all layers were made in 16 bits first."""

ONLINE_FP8_HOLDS_BOTH = VersionRule(
    (0, 13, 0), "patched_weight_loader; read in 0.13 to 0.15.1; vllm#31805, vllm#32773", until=(0, 16, 0)
)
"""Layers in 16 bits are held until the last one was read."""

# CUDA graphs.

GPT_OSS_CAPTURES_MORE = VersionRule((0, 11, 0), "models/config.py GptOssForCausalLMConfig")
"""gpt-oss captures batches of up to 992, whatever max_num_seqs is."""

GPT_OSS_CAPTURES_1024 = VersionRule((0, 12, 0), GPT_OSS_CAPTURES_MORE.source)

GRAPHS_ARE_BUDGETED = VersionRule((0, 21, 0), "envs.py VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS; 18 logs")
"""The first runner takes its estimate of CUDA graphs off the budget."""

GRAPHS_ARE_ESTIMATED_LOWER = VersionRule((0, 26, 0), "three logs of 0.26 on H100")
"""The estimate of the first runner is half of what the formula gives."""

SECOND_RUNNER_BUDGETS_GRAPHS = VersionRule((0, 29, 0), "v1/worker/gpu/model_runner.py")
"""The second runner estimates CUDA graphs too. On AMD's GPUs graphs count since the same release."""

# Experts.

TRT_LLM_RUNS_UNQUANTIZED_EXPERTS = VersionRule((0, 21, 0), "fused_moe/oracle; not in 0.19, in 0.25")
"""On Blackwell servers."""

MXFP4_VALUES_ARE_PADDED_MORE = VersionRule(
    (0, 17, 0), "triton_kernels layout_details/hopper_value.py; read in 0.19 and 0.26", until=(0, 22, 0)
)
"""On Hopper, to 128 inputs and 64 outputs in place of 64 and 16."""

MXFP4_SCALES_STAY = VersionRule(_EVER, "fused_moe/oracle/mxfp4.py deletes them since 0.25", until=(0, 25, 0))
"""The scales as loaded stay allocated beside those that the kernel uses."""

# Parallelism and the server.

MERGED_BLOCKS_MAY_BREAK = VersionRule(
    (0, 14, 0),
    "linear.py ColumnParallelLinear _maybe_allow_fp8_block_shape_mismatch; read in 0.14.1 to 0.33; not in 0.13",
)
"""The parts of a merged projection in fp8 may end within a block."""

EXPERT_BLOCKS_ARE_REFINED = VersionRule(
    (0, 29, 0),
    "fused_moe/oracle/fp8.py refine_fp8_moe_block_shape; read in 0.29 and 0.33; not in 0.28. Only Triton's kernel "
    "takes such blocks, on GPUs that compute in fp8 (experts/triton_moe.py _supports_quant_scheme)",
)
"""The scales of fp8 experts are refined to smaller blocks where a shard does not hold whole ones."""

SERVERS_ARE_PLACED_ANYWHERE = VersionRule(
    (0, 21, 0), "v1/executor/ray_executor_v2.py is the default; read in 0.19, 0.21, 0.23 and 0.32"
)
"""The Ray executor takes any GPUs of the cluster; before it, each server needs a free GPU of its own pod."""

SERVERS_DRAIN = VersionRule((0, 18, 0), "engine/arg_utils.py shutdown_timeout")
"""Before it, a server that is told to end cuts its answers off."""

BUILDS_LACK_VOLTA = VersionRule((0, 20, 0), "pytorch#172352, vllm#39878")
"""PyTorch 2.11 left compute capability 7.0 out of its CUDA 12.8 and 13 builds; 0.19.1 of vLLM already failed on it."""
BUILDS_HAVE_BLACKWELL = VersionRule((0, 9, 0), "setup.py, requirements: PyTorch 2.7 and its builds for CUDA 12.8")
"""0.8.5 requires PyTorch 2.6, built for CUDA 12.4."""

# What checkpoints need of a release.

_ALGORITHMS = "quantization/modelopt.py QUANT_ALGOS (LINEAR_ALGOS since 0.30); read in 0.13 to 0.33"
_AUTOROUND = "quantization/inc.py SUPPORTED_DTYPES; read in 0.22 to 0.29"
_SHORTHANDS = "config/quantization.py _ONLINE_SHORTHANDS; read in 0.22 to 0.33"

MODELOPT_FP8_BY_CHANNEL = VersionRule((0, 14, 0), _ALGORITHMS)
MODELOPT_FP8_BY_BLOCK = VersionRule((0, 14, 0), _ALGORITHMS)
MODELOPT_MXFP8 = VersionRule((0, 16, 0), _ALGORITHMS)
MODELOPT_MIXED = VersionRule((0, 17, 0), _ALGORITHMS)
MODELOPT_NVFP4_WEIGHTS = VersionRule((0, 21, 0), _ALGORITHMS)
MODELOPT_BLOCK_SCALES = VersionRule((0, 30, 0), _ALGORITHMS)
AUTOROUND_MX = VersionRule((0, 24, 0), _AUTOROUND)
AUTOROUND_FP8 = VersionRule((0, 29, 0), _AUTOROUND)

ASYMMETRIC_GPTQ = VersionRule(_EVER, "quantization/gptq.py; not in auto_gptq.py TYPE_MAP", until=(0, 22, 0))
ACTIVATION_ORDER = VersionRule(
    _EVER, "utils/gptq_utils.py and compressed_tensors.py; read in 0.29 and 0.30", until=(0, 30, 0)
)
SPARSE_WEIGHTS = VersionRule(_EVER, "compressed_tensors_24.py, gone since 0.19", until=(0, 19, 0))

GPTQ_HAS_KERNELS = VersionRule(_EVER, "quantization/gptq.py, before auto_gptq.py TYPE_MAP", until=(0, 22, 0))
"""Kernels for weights of 2 and 3 bits."""

AUTOROUND_TAKES_ALL_WIDTHS = VersionRule((0, 30, 0), "inc_wna16_scheme.py CUDA_HUMMING_SUPPORTED_BITS")

AWQ_IN_8_BITS = VersionRule(_EVER, "awq_marlin.py TYPE_MAP; read in 0.11.1 and 0.12", until=(0, 12, 0))

MXFP8_WHILE_LOADING = VersionRule((0, 22, 0), _SHORTHANDS)
MXFP4_WHILE_LOADING = VersionRule((0, 28, 0), _SHORTHANDS)

FP8_READS_ALONE = VersionRule((0, 31, 0), "quantization/fp8.py of 0.31")
"""fp8 only reads checkpoints, and fp8_per_tensor quantizes while loading."""

_NO_FLOAT16 = "config/model.py _FLOAT16_NOT_SUPPORTED_MODELS; read in 0.9.2 to 0.33, not in 0.8.5"

FLOAT16_IS_REJECTED = VersionRule((0, 9, 0), _NO_FLOAT16)
"""Models that overflow in float16 are not served in it."""

PLAMO2_REJECTS_FLOAT16 = VersionRule((0, 9, 0), _NO_FLOAT16, until=(0, 27, 0))

# Start-up.

STARTUP_PLANS = VersionRule(
    (0, 27, 0), "vllm#47388; v1/worker/startup_plan.py; read in 0.29, and in 0.27 according to vllm-ascend#15654"
)
"""VLLM_ENABLE_STARTUP_PLAN: a GPU worker keeps its memory profile below VLLM_CACHE_ROOT."""

# Speed.

ENGINE_V1 = VersionRule((0, 8, 0), "the default engine (release notes of 0.8.0; VLLM_USE_V1 in envs.py)")
"""Its scheduler runs beside the model; that of V0 costs time in each step and for each request."""
