"""Peak memory of vLLM's profile run beyond the weights: the sampler's, a layer's, and the experts' workspace.

vLLM runs one batch of max_num_batched_tokens tokens and then samples for max_num_seqs requests; the higher of the two
peaks is kept free. The formulas follow the tensors alive at each peak; the constants are fitted to start-up logs of
vLLM 0.11 to 0.19 on H100 (llm-d-planner's accuracy runs, 56 models and settings), where they are right to 0.03 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from rayllm_ctl.model.facts import Experts, ModelFacts

MIB = 2**20


@dataclass(frozen=True)
class Sampler:
    """Bytes per (request, vocabulary entry) of the sampler's profile run, besides the logits in the model's dtype."""

    bytes_per_logit: float
    evidence: str


def sampler_of(release: tuple[int, int, int], *, second_runner: bool) -> Sampler:
    """How the sampler of a version spends memory."""
    if second_runner:
        return Sampler(5.0, "second model runner: 6.9 B with bf16 logits, one point (Qwen3-14B on L40S, 0.29)")
    if release >= (0, 17, 0):
        return Sampler(
            12.41, "Triton top-k/top-p since 0.17: 14.4 B with bf16 logits, 30 models on H100 (0.17 to 0.19)"
        )
    return Sampler(
        35.85, "sorting top-k/top-p before 0.17: 37.85 B, Qwen3, Llama 3.1 and gpt-oss on H100 (0.11 to 0.16)"
    )


_LIBRARIES = 65 * MIB
"""cuBLAS workspaces that torch's allocator holds during the run (constant over 30 models on H100)."""

_LAYER_LIBRARIES = 80 * MIB
"""The same where a layer's own tensors set the peak (CodeLlama 7B, Granite 3 8B)."""


@dataclass(frozen=True)
class Peak:
    """The parts of the profile run's peak in bytes."""

    sampler: int
    layer: int
    workspace: int
    encoder: int

    @property
    def total(self) -> int:
        return max(self.sampler + self.workspace, self.layer + self.workspace, self.encoder)


def sampler_bytes(facts: ModelFacts, sampler: Sampler, *, seqs: int, tokens: int, dtype_bytes: int) -> int:
    """Logits of `seqs` requests with the sampler's copies, beside the hidden states of `tokens` tokens."""
    rows = -(-facts.vocab_size // 64) * 64
    logits = min(seqs, tokens) * rows * (sampler.bytes_per_logit + dtype_bytes)
    return int(logits) + tokens * facts.hidden_size * dtype_bytes + _LIBRARIES


def layer_bytes(facts: ModelFacts, *, tokens: int, tensor: int, dtype_bytes: int) -> int:
    """A feed-forward block at work: gate, up and their product, and three times the hidden states."""
    width = 3 * -(-facts.intermediate_size // tensor) + 3 * facts.hidden_size
    return tokens * width * dtype_bytes + _LAYER_LIBRARIES


def expert_workspace(experts: Experts, *, tokens: int, tensor: int, dtype_bytes: int) -> int:
    """Two buffers of the fused experts' kernel, kept for all layers (fused_moe/modular_kernel.py since 0.13):
    tokens x top_k x max(width, hidden) and tokens x top_k x max(2 width, hidden).

    Checked on H100 with 0.19: Qwen3-30B-A3B +0.50, Qwen1.5-MoE +0.30, DeepSeek-V2-Lite +0.43 GiB.
    """
    width = -(-experts.intermediate // tensor)
    inward = width * (2 if experts.gated else 1)
    rows = tokens * experts.top_k
    return rows * (max(width, experts.hidden) + max(inward, experts.hidden)) * dtype_bytes


def workspace_bytes(
    facts: ModelFacts, release: tuple[int, int, int], *, tokens: int, tensor: int, dtype_bytes: int
) -> int:
    """The experts' workspace of the largest mixture; before 0.13 it was not kept beside the sampler's peak."""
    if release < (0, 13, 0):
        return 0
    kinds = {experts for layer in facts.layers for experts in layer.experts}
    return max((expert_workspace(e, tokens=tokens, tensor=tensor, dtype_bytes=dtype_bytes) for e in kinds), default=0)
