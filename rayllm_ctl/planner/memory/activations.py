"""Peak memory of vLLM's profile run beyond the weights: the sampler's, a layer's, the experts', the encoders'.

vLLM runs the encoders on the largest items, then one batch of max_num_batched_tokens tokens, and samples for
max_num_seqs requests; the highest peak is kept free. The formulas follow the tensors alive at each peak; constants are
fitted to start-up logs of vLLM 0.11 to 0.19 on H100 (llm-d-planner's accuracy runs, 56 models and settings), where
they are right to 0.03 GiB.
"""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import Experts, ModelFacts, MultiModalEncoder
from rayllm_ctl.model.plan.plan import Band
from rayllm_ctl.planner import vllm_rules

Release = tuple[int, int, int]

MIB = 2**20


@dataclass(frozen=True)
class ProfileRun:
    """What the profile run is made with: tokens of a batch, requests, TP ranks, bytes per element, encoders run.

    length: tokens of a request; context: the same as far as videos may fill it (0: the user turns them off).
    large: on a GPU of 70 GiB or more. flashinfer: whether FlashInfer's sampler is asked for (None: nothing is said;
    False also where it cannot be used). spread: whether the encoders' items are spread over the ranks, which hold them
    whole. expert_parallel: whether experts are spread over the ranks, whole. data: ranks of data parallelism that share
    experts.
    """

    tokens: int
    seqs: int
    tensor: int
    dtype_bytes: int
    images: bool
    context: int = 0
    length: int = 0
    large: bool = True
    flashinfer: bool | None = None
    spread: bool = False
    expert_parallel: bool = False
    data: int = 1


@dataclass(frozen=True)
class Sampler:
    """Bytes per (request, vocabulary entry): at the peak besides the logits in the model's dtype, and kept from then
    on. `least`: what it may be instead with another sampler installed."""

    peak: float
    kept: float = 0.0
    least: float = 0.0


_FLASHINFER = 7.5


def sampler_of(release: Release, *, second_runner: bool, flashinfer: bool | None = None) -> Sampler:
    """How the sampler of a version spends memory.

    Before 0.17 it sorts: 37.85 B with bf16 logits (Qwen3, Llama 3.1, gpt-oss on H100, 0.11 to 0.16). From 0.17 a Triton
    kernel selects: 14.41 B (30 models on H100, 0.17 to 0.19). FlashInfer's, 9.5 B (Qwen2-7B on A100, 0.10.1), is the
    default where it is installed to 0.11.0, must be asked for until 0.20, and is the default again from 0.21 (envs.py,
    v1/sample/ops/topk_topp_sampler.py); but since then the profile run warms up the other one too
    (gpu_model_runner.py _dummy_sampler_run, read in 0.21 to 0.26), so that its peak stays (gpt-oss-20b, Qwen3-30B-A3B,
    Qwen3-8B on H100, 0.26). The second runner takes 4.0 B (Qwen3 8B, Llama 3.1 8B on H100, 0.26) and keeps counts of
    every request's output tokens and their mask (gpu/sample/penalties.py).
    """
    if second_runner:
        return Sampler(2.0, kept=4.125)
    if flashinfer and vllm_rules.FLASHINFER_IS_ASKED_FOR.holds(release):
        return Sampler(_FLASHINFER)
    if vllm_rules.SAMPLER_SELECTS.holds(release):
        return Sampler(12.41)
    installed = vllm_rules.FLASHINFER_SAMPLES.holds(release) and flashinfer is not False
    return Sampler(35.85, least=_FLASHINFER if installed else 0.0)


_LIBRARIES = 65 * MIB
"""cuBLAS workspaces that torch's allocator holds during the run (constant over 30 models on H100)."""

_LAYER_LIBRARIES = 80 * MIB
"""The same where a layer's own tensors set the peak (CodeLlama 7B, Granite 3 8B)."""


def cold_start(release: Release, tensor: int, *, large: bool) -> Band:
    """Least peak of the second runner in bytes, with what it keeps. large: a GPU of 70 GiB or more.

    A first start, which compiles, took 1.72 to 1.78 GiB besides weights and graphs on L40S, for 8 requests as for 256,
    and on L4; at TP 2 on L4 1.16; a later one on L4 0.5 (Qwen3-14B, 0.28 and 0.29). On H100 a first start took no more
    than a later one in 0.26; whether that is so since 0.28 is not known.
    """
    if large:
        return Band(0.0, 0.0, 1.65 * GIB if vllm_rules.COLD_STARTS_TAKE_MORE.holds(release) else 0.0)
    return Band(0.25 * GIB, (1.5 if tensor == 1 else 0.86) * GIB, 1.65 * GIB)


@dataclass(frozen=True)
class Peak:
    """The parts of the profile run's peak in bytes. held: encoder outputs and pixels, alive through the whole run.
    kept: what stays allocated after it. floor: a least peak with what is kept."""

    sampler: int
    layer: int
    workspace: int
    encoder: int
    held: int
    kept: int
    sampler_least: int
    floor: Band

    @property
    def total(self) -> int:
        return max(self.kept + max(self._run(self.sampler), self.encoder), int(self.floor.typical))

    @property
    def leaner(self) -> int:
        """The total with the leanest sampler that may be installed."""
        run = self._run(self.sampler_least)
        return max(self.kept + max(run, self.encoder), int(self.floor.typical))

    @property
    def least(self) -> int:
        """Without the encoders' share, which smaller images or a limit of them lower, and with the leanest sampler."""
        return max(self.kept + self._run(self.sampler_least) - self.held, int(self.floor.low))

    @property
    def most(self) -> int:
        return max(self.kept + max(self._run(self.sampler), self.encoder), int(self.floor.high))

    def _run(self, sampler: int) -> int:
        return max(sampler, self.layer) + self.workspace + self.held


def peak_of(
    facts: ModelFacts,
    release: Release,
    load: ProfileRun,
    *,
    first: bool,
    last: bool,
    second_runner: bool,
    workspace: int = 0,
    transient: int = 0,
) -> Peak:
    """The peak on a pipeline stage; encoders run on the first one, the sampler on the last. workspace: what kernels
    keep for all layers; transient: what an attention kernel takes while a layer runs."""
    sampler = sampler_of(release, second_runner=second_runner, flashinfer=load.flashinfer)
    rows = min(load.seqs, load.tokens) * -(-facts.vocab_size // 64) * 64
    hidden = load.tokens * facts.hidden_size * load.dtype_bytes + _LIBRARIES
    encoders = facts.encoders if first and load.images else ()
    return Peak(
        sampler=int(rows * (sampler.peak + load.dtype_bytes)) + hidden if last else 0,
        layer=layer_bytes(facts, load, second_runner=second_runner) + transient,
        workspace=workspace,
        encoder=max((encoder_bytes(encoder, load) for encoder in encoders), default=0),
        held=max((held_bytes(encoder, facts, load, release) for encoder in encoders), default=0),
        kept=int(rows * sampler.kept) if last else 0,
        sampler_least=int(rows * ((sampler.least or sampler.peak) + load.dtype_bytes)) + hidden if last else 0,
        floor=cold_start(release, load.tensor, large=load.large) if second_runner else Band(0.0, 0.0, 0.0),
    )


def layer_bytes(facts: ModelFacts, load: ProfileRun, *, second_runner: bool = False) -> int:
    """A feed-forward block at work: gate, up and their product, and three times the hidden states of every stream.

    With the second runner the product takes no memory of its own (Qwen3 8B and 32B on H100, 0.26).
    """
    wide = 2 if second_runner else 3
    width = wide * -(-facts.intermediate_size // load.tensor) + 3 * facts.hidden_size * facts.streams
    return load.tokens * width * load.dtype_bytes + (_LIBRARIES if second_runner else _LAYER_LIBRARIES)


def expert_workspace(experts: Experts, load: ProfileRun) -> int:
    """Two buffers of the fused experts' kernel, kept for all layers (fused_moe/modular_kernel.py since 0.13):
    tokens x top_k x max(width, hidden) and tokens x top_k x max(2 width, hidden). The width is that of the rank's
    weights (w1.size(1)), which expert parallelism does not divide. With data parallelism the tokens are those of all
    ranks (fused_moe/prepare_finalize/naive_dp_ep.py, 0.29), each of which runs a full batch while memory is profiled.

    Checked on H100 with 0.19: Qwen3-30B-A3B +0.50, Qwen1.5-MoE +0.30, DeepSeek-V2-Lite +0.43 GiB.
    """
    ranks = load.data * load.tensor
    width = experts.intermediate if load.expert_parallel else -(-experts.intermediate // ranks)
    inward = width * (2 if experts.gated else 1)
    rows = load.data * load.tokens * experts.top_k
    return rows * (max(width, experts.hidden) + max(inward, experts.hidden)) * load.dtype_bytes


def gathered_bytes(facts: ModelFacts, load: ProfileRun) -> int:
    """The tokens of all ranks of data parallelism, which each one receives before its experts."""
    return load.data * load.tokens * facts.hidden_size * load.dtype_bytes if load.data > 1 else 0


def workspace_bytes(facts: ModelFacts, release: Release, load: ProfileRun, *, monolithic: bool, packed: bool) -> int:
    """The workspace that modular kernels and sparse MLA share (v1/worker/workspace.py): the largest one counts.

    Experts: that of the largest mixture; before 0.13 it was not kept beside the sampler's peak. Monolithic kernels have
    none (log line "NoDPEPMonolithic"). packed: sparse MLA with the packed fp8 cache.
    """
    kinds = {experts for layer in (*facts.layers, *facts.shared) for experts in layer.experts}
    modular = vllm_rules.EXPERTS_SHARE_A_WORKSPACE.holds(release) and not monolithic
    experts = max((expert_workspace(item, load) for item in kinds), default=0) if modular else 0
    return max(experts, sparse_workspace(load.length, packed=packed) if "dsa" in facts.traits else 0)


def sparse_workspace(length: int, *, packed: bool) -> int:
    """Sparse MLA's buffer for prompts of `length` tokens at most: the indexer's 40 entries of 132 bytes for each
    (v1/attention/backends/mla/indexer.py get_max_prefill_buffer_size, 0.26) or FlashMLA's 5 entries of 1,152 bytes
    where the cache is packed (mla/flashmla_sparse.py)."""
    return length * max(40 * 132, 5 * 1152 if packed else 0)


SPARSE_TRANSIENT = 512 * MIB
"""What the indexer's scores take while a layer of sparse MLA runs (layers/sparse_attn_indexer.py)."""


@dataclass(frozen=True)
class _Batch:
    """What an encoder runs on at once: tokens of an item of the largest kind; patches and input values of all."""

    tokens: int
    patches: int
    pixels: int


def _batch(encoder: MultiModalEncoder, load: ProfileRun, *, spread: bool = False) -> _Batch:
    """As many of the largest item as give max_num_batched_tokens embeddings, at least one; of these the share of a rank
    if they are spread. A video counts where it gives more embeddings than an image."""
    tokens, patches, pixels = encoder.tokens, encoder.patches, encoder.pixels
    if encoder.video is not None and load.context:
        steps = encoder.video.steps(load.context)
        if steps * encoder.video.tokens > tokens:
            tokens, patches, pixels = (
                steps * each for each in (encoder.video.tokens, encoder.video.patches, encoder.video.pixels)
            )
    items = max(1, load.tokens // max(1, tokens))
    if spread:
        items = -(-items // load.tensor)
    return _Batch(tokens, items * patches, items * pixels)


_EXPANDED_VIDEO = 153_600
"""Tokens to which vLLM 0.11 expanded the outputs of a model with deepstack: int(12,288 x 12.5), the most that a video
may have and its timestamps (models/qwen3_vl.py get_max_video_tokens; without the factor in 0.12)."""


def held_bytes(encoder: MultiModalEncoder, facts: ModelFacts, load: ProfileRun, release: Release) -> int:
    """Outputs of the encoder for a full batch, and the pixels they came from (Gemma 3 12B +0.20, 27B +0.23 GiB).

    With deepstack an output is as wide as all its levels together (qwen3_vl.py: hidden x (1 + levels)).
    """
    batch = _batch(encoder, load)
    tokens = max(load.tokens, batch.tokens)
    if encoder.levels and load.context and vllm_rules.VIDEOS_ARE_EXPANDED.holds(release):
        tokens = max(tokens, _EXPANDED_VIDEO)
    return (tokens * facts.hidden_size * (1 + encoder.levels) + batch.pixels) * load.dtype_bytes


def encoder_bytes(encoder: MultiModalEncoder, load: ProfileRun) -> int:
    """A block of the encoder at work: twice its feed-forward width and four hidden states for every patch, with the
    pixels; the mask over all patches where there is one, twice; the outputs of layers that are kept.

    Qwen3.5 9B on L40S 1.78 GiB, 4B 1.8 (0.19, 0.22); Mistral Small 3.1 on H100 2.18 (0.19).
    """
    batch = _batch(encoder, load, spread=load.spread)
    block = encoder.blocks[0][0]
    ranks = load.tensor if encoder.sharded and not load.spread else 1
    width = 2 * -(-max((linear.inputs for linear in block.linears), default=0) // ranks)
    total = (batch.patches * (width + (4 + encoder.kept) * encoder.hidden) + batch.pixels) * load.dtype_bytes
    if encoder.masked:
        total = max(total, 2 * batch.patches * batch.patches * load.dtype_bytes)
    return total + _LIBRARIES
