"""The time that one replica takes for a decode step and for a prompt.

A step takes the sum of what it reads, what it computes, what its kernels cost whatever their size, and what the GPUs
of a TP group exchange. (A maximum of these, a roofline, is too fast where two of them are alike.)
"""

from __future__ import annotations

import math

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory.drafts import speculation
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, ShardSettings, head_tensors, layer_tensors
from rayllm_ctl.planner.request import Request, Shape
from rayllm_ctl.planner.speed.coefficients import FITTED, Coefficients
from rayllm_ctl.planner.speed.work import WIDE, ModelWork

_NETWORK_BANDWIDTH = 1.25e9
_NETWORK_ALL_REDUCE = 2.5e-4
"""Bytes/s of a node and seconds of a small all-reduce over a plain network of 10 Gbit/s (assumptions)."""

_STAGE_HOP = 1e-4
"""Seconds of handing activations to the next pipeline stage over a network (an assumption)."""

_ACTIVATION_BYTES = 2
_ALL_REDUCES = 2
"""Of a layer: after attention and after the MLP."""

_BLACKWELL = (10, 0)
"""Compute capability."""


@dataclass(frozen=True)
class Guesses:
    """Speculative decoding: tokens guessed ahead in a step, and what guesses each of them: bytes read by one GPU, and
    layers (0: no model, as with n-grams)."""

    tokens: int = 0
    draft_bytes: float = 0.0
    draft_layers: int = 0


@dataclass(frozen=True)
class ReplicaSpeed:
    """One replica: `work` over `tensor` x `pipeline` GPUs. Times are seconds.

    networked: the GPUs that share a layer are in several nodes. chunk: the most tokens of a step. old_engine: V0.
    guesses: what is guessed ahead, where the load says how many of the guesses are right. calibration: what was
    measured of such a replica.
    """

    work: ModelWork
    gpu: GPU
    tensor: int
    pipeline: int
    chunk: int
    old_engine: bool = False
    networked: bool = False
    guesses: Guesses = Guesses()
    calibration: Calibration | None = None
    coefficients: Coefficients = FITTED

    @property
    def moe(self) -> bool:
        return bool(self.work.experts)

    @property
    def over_pcie(self) -> bool:
        return self.tensor > 1 and not self.networked and self.gpu.interconnect == "pcie"

    @property
    def rarely_measured(self) -> bool:
        """Whether fewer than ten public measurements stand behind the figures of such a replica."""
        return self.old_engine or self.networked or self.over_pcie or self.pipeline > 1 or self.gpu.vendor != "nvidia"

    def step(self, batch: float, length: float, *, guess: bool = False) -> float:
        """A decode step of `batch` requests that are `length` tokens long. Pipeline stages work one after another, each
        on its share of the batch. guess: tokens are guessed ahead, and checked together with the last one."""
        share = max(1.0, batch / self.pipeline)
        ahead = self.guesses.tokens if guess else 0
        tokens, given = share * (1 + ahead), self.coefficients
        read = self.work.weight_bytes(tokens) / self.tensor + share * self.work.cache_bytes(length, self.tensor)
        computed = tokens * (self._computing(length) + self.work.head_flops / self._peak(WIDE))
        efficiency = given.step_compute_moe if self.moe else given.step_compute
        total = (
            read / (given.bandwidth * self.gpu.bandwidth)
            + computed / self.tensor / efficiency
            + self._kernels()
            + self._exchange(tokens)
            + (self.pipeline - 1) * _STAGE_HOP
        )
        if guess:
            drafted = self.guesses.draft_bytes / (given.bandwidth * self.gpu.bandwidth)
            total += ahead * (drafted + self.guesses.draft_layers * given.layer)
        if self.old_engine:
            total += given.old_step + given.old_request * batch
        return total * self._vendor()

    def prompt(self, tokens: float, *, after: float = 0) -> float:
        """Computing `tokens` tokens of a prompt that follow `after` cached ones, beside what the steps that they ride
        in take anyway."""
        given = self.coefficients
        computed = tokens * self._computing(after + tokens / 2) + self.work.head_flops / self._peak(WIDE)
        efficiency = given.prompt_compute_moe if self.moe else given.prompt_compute
        return (computed / self.tensor / efficiency + self._transfer(tokens)) * self._vendor()

    def prompt_overhead(self) -> float:
        """What a step with prompts costs more than one without, however long they are."""
        given = self.coefficients
        each = given.prompt_layer_blackwell if self._blackwell else given.prompt_layer
        return self.work.layers * each

    def chunks(self, tokens: float, batch: float) -> int:
        """Steps that a prompt of `tokens` tokens is divided into while `batch` requests are in flight."""
        return max(1, math.ceil(tokens / max(1.0, self.chunk - batch + 1)))

    def _computing(self, length: float) -> float:
        """Of one token that sees `length` tokens, at the peak of one GPU."""
        layers = sum(flops / self._peak(arithmetic) for arithmetic, flops in self.work.operations)
        return layers + self.work.attention_flops(length) / self._peak(WIDE)

    def _peak(self, arithmetic: str) -> float:
        """FLOP/s: of 4 bits in 8 where the GPU has no faster unit, and in 16 where it has neither."""
        flops = self.gpu.flops
        wide = flops.get("bf16") or flops["fp16"]
        if arithmetic == "fp4":
            return flops.get("fp4") or flops.get("fp8") or wide
        return flops.get(arithmetic) or wide

    @property
    def _blackwell(self) -> bool:
        return self.gpu.compute_capability is not None and self.gpu.compute_capability >= _BLACKWELL

    def _kernels(self) -> float:
        given = self.coefficients
        experts = 0 if self._blackwell else sum(group.layers for group in self.work.experts)
        return self.work.layers * given.layer + experts * given.expert_layer

    def _exchange(self, tokens: float) -> float:
        """The all-reduces of a step with `tokens` tokens."""
        if self.tensor == 1:
            return 0.0
        if self.networked:
            return self.work.layers * _ALL_REDUCES * _NETWORK_ALL_REDUCE + self._transfer(tokens)
        waits = (self.tensor - 1) * self.coefficients.pcie_rank if self.over_pcie else 0.0
        return self.work.layers * waits + self._transfer(tokens)

    def _transfer(self, tokens: float) -> float:
        """A ring moves 2 (n - 1) / n of the activations, twice a layer, in 16 bits."""
        link = _NETWORK_BANDWIDTH if self.networked else self.gpu.link_bandwidth
        if self.tensor == 1 or not link:
            return 0.0
        activations = self.work.layers * _ALL_REDUCES * tokens * self.work.hidden * _ACTIVATION_BYTES
        return activations * 2 * (self.tensor - 1) / self.tensor / (self.coefficients.link * link)

    def _vendor(self) -> float:
        return 1.0 if self.gpu.vendor == "nvidia" else self.coefficients.amd


def replica_speed(
    request: Request, shape: Shape, settings: ResolvedSettings, calibration: Calibration | None = None
) -> ReplicaSpeed:
    """The speed of a replica of `shape` at `settings`."""
    return ReplicaSpeed(
        work=request.work(settings),
        gpu=shape.gpu,
        tensor=shape.tensor,
        pipeline=shape.pipeline,
        chunk=settings.max_num_batched_tokens,
        old_engine=not vllm_rules.ENGINE_V1.holds(request.engine.release),
        networked=shape.tensor > shape.gpu.max_per_node,
        guesses=_guesses(request, shape, settings),
        calibration=calibration,
    )


def _guesses(request: Request, shape: Shape, settings: ResolvedSettings) -> Guesses:
    """A head of EAGLE reads the model's output head too; multi-token-prediction layers are the model's own."""
    asked, facts = speculation(settings.args), request.facts
    sharded = ShardSettings(shape.tensor, DTYPE_BYTES.get(settings.dtype or "", 2), None)
    head = sum(head_tensors(facts, sharded))
    if asked.own_layers:
        layers = facts.draft_layers
        read = sum(sum(layer_tensors(layer, sharded)) for layer in layers)
        return Guesses(asked.tokens or 1, read + head, len(layers))
    draft = request.draft
    if draft is None:
        return Guesses(asked.tokens)
    own = sum(draft.tensors(sharded))
    return Guesses(asked.tokens, own if draft.kind == "draft_model" else own + head, draft.facts.layer_count)
