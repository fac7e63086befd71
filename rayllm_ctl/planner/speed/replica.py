"""The time that one replica takes for a decode step and for a prompt.

A step takes the sum of what it reads, what it computes, what its kernels cost whatever their size, and what the GPUs
of a TP group exchange. (A maximum of these, a roofline, is too fast where two of them are alike.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import field
from functools import cached_property

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.text.lengths import Shares
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

_GATHER = "allgather_reducescatter"

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
    """One replica: `work` over `data` x `tensor` x `pipeline` GPUs. Times are seconds.

    With data parallelism each of the `data` ranks has requests of its own, and all of the layers but the routed
    experts; of these each GPU of the group has a share, so that the tokens of all ranks meet there, and one rank does
    not step without the others. networked: the GPUs that share a layer are in several nodes. chunk: the most tokens of
    a step of a rank. gathered: every rank receives the tokens of all others (allgather_reducescatter, vLLM's default),
    not only those that its experts are chosen by. old_engine: V0.
    guesses: what is guessed ahead, where the load says how many of the guesses are right. calibration: what was
    measured of such a replica. means: what was computed of distributions of lengths before.
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
    data: int = 1
    gathered: bool = True
    means: dict[Hashable, tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def moe(self) -> bool:
        return bool(self.work.experts)

    @property
    def over_pcie(self) -> bool:
        return self.tensor * self.sharing > 1 and not self.networked and self.gpu.interconnect == "pcie"

    @cached_property
    def sharing(self) -> int:
        """Ranks that share experts: one without experts, with which ranks are engines that do not meet."""
        return self.data if self.moe else 1

    @property
    def rarely_measured(self) -> bool:
        """Whether fewer than ten public measurements stand behind the figures of such a replica."""
        divided = self.networked or self.over_pcie or self.pipeline > 1 or self.data > 1
        return self.old_engine or divided or self.gpu.vendor != "nvidia"

    def step(self, batch: float, length: float | Shares, *, guess: bool = False, ranks: float = 1.0) -> float:
        """A decode step of `batch` requests that are `length` tokens long, or of classes of lengths. Pipeline stages
        work one after another, each on its share of the batch. guess: tokens are guessed ahead, and checked together
        with the last one. ranks: of those of data parallelism, how many have that many requests."""
        share = max(1.0, batch / self.pipeline)
        ahead = self.guesses.tokens if guess else 0
        tokens, given = share * (1 + ahead), self.coefficients
        if isinstance(length, tuple):
            cached, computing = self._token(length)
        else:
            cached, computing = self.work.cache_bytes(length, self.tensor), self._computing(length)
        weights, busy = self.work.weight_bytes(tokens), 1.0
        if self.sharing > 1:
            busy = min(ranks, self.sharing)
            computing -= self._spread(busy)
            weights = self.work.dense_bytes + self.work.expert_bytes(tokens * busy) / self.sharing
        read = weights / self.tensor + share * cached
        computed = tokens * (computing + self._head)
        efficiency = given.step_compute_moe if self.moe else given.step_compute
        total = (
            read / (given.bandwidth * self.gpu.bandwidth)
            + computed / self.tensor / efficiency
            + self._kernels
            + self._exchange(tokens, busy)
            + (self.pipeline - 1) * _STAGE_HOP
        )
        if guess:
            drafted = self.guesses.draft_bytes / (given.bandwidth * self.gpu.bandwidth)
            total += ahead * (drafted + self.guesses.draft_layers * given.layer)
        if self.old_engine:
            total += given.old_step + given.old_request * batch
        return total * self._vendor

    def prompt(self, tokens: float, *, after: float = 0, ranks: float = 1.0) -> float:
        """Computing `tokens` tokens of a prompt that follow `after` cached ones, beside what the steps that they ride
        in take anyway. ranks: of those of data parallelism, how many compute such a prompt."""
        given, computing = self.coefficients, self._computing(after + tokens / 2)
        busy = 1.0
        if self.sharing > 1:
            busy = min(ranks, self.sharing)
            computing -= self._spread(busy)
        computed = tokens * computing + self._head
        efficiency = given.prompt_compute_moe if self.moe else given.prompt_compute
        return (computed / self.tensor / efficiency + self._transfer(tokens, busy)) * self._vendor

    def prompts(self, lengths: Shares, cached: int, ranks: float) -> tuple[float, float]:
        """The mean of the times of prompts, and that of their squares. cached: tokens of each that the cache holds."""
        key = ("prompts", lengths, cached, ranks)
        found = self.means.get(key)
        if found is None:
            times = [
                (share, self.prompt(tokens - held, after=held, ranks=ranks))
                for share, tokens in lengths
                for held in (min(cached, tokens - 1),)
            ]
            found = sum(share * time for share, time in times), sum(share * time**2 for share, time in times)
            self.means[key] = found
        return found

    def prompt_overhead(self) -> float:
        """What a step with prompts costs more than one without, however long they are."""
        given = self.coefficients
        each = given.prompt_layer_blackwell if self._blackwell else given.prompt_layer
        return self.work.layers * each

    def chunks(self, tokens: float, batch: float) -> int:
        """Steps that a prompt of `tokens` tokens is divided into while `batch` requests are in flight."""
        return max(1, math.ceil(tokens / max(1.0, self.chunk - batch + 1)))

    def _token(self, length: Shares) -> tuple[float, float]:
        """Means of one token that sees so many: bytes of caches that a GPU reads, and the time of `_computing`."""
        key = ("token", length)
        found = self.means.get(key)
        if found is None:
            found = (
                sum(share * self.work.cache_bytes(tokens, self.tensor) for share, tokens in length),
                sum(share * self._computing(tokens) for share, tokens in length),
            )
            self.means[key] = found
        return found

    def _spread(self, busy: float) -> float:
        """Of the time of one token, what it takes less because idle ranks compute for their experts, too."""
        experts = sum(flops / self._peak(arithmetic) for arithmetic, flops in self.work.expert_operations)
        return experts * (1 - busy / self.sharing)

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

    @cached_property
    def _head(self) -> float:
        """Of the output head for one token, as `_computing`."""
        return self.work.head_flops / self._peak(WIDE)

    @cached_property
    def _kernels(self) -> float:
        given = self.coefficients
        experts = 0 if self._blackwell else sum(group.layers for group in self.work.experts)
        return self.work.layers * given.layer + experts * given.expert_layer

    def _exchange(self, tokens: float, busy: float) -> float:
        """What GPUs tell one another in a step with `tokens` tokens of each of `busy` ranks."""
        group = self.tensor * self.sharing
        if group == 1:
            return 0.0
        if self.networked:
            return self.work.layers * _ALL_REDUCES * _NETWORK_ALL_REDUCE + self._transfer(tokens, busy)
        waits = (group - 1) * self.coefficients.pcie_rank if self.over_pcie else 0.0
        return self.work.layers * waits + self._transfer(tokens, busy)

    def _transfer(self, tokens: float, busy: float) -> float:
        """Activations in 16 bits. The all-reduces of TP: a ring moves 2 (n - 1) / n of them, twice a layer. With data
        parallelism experts have no all-reduce: their tokens go to the other ranks, and their results come back. A ring
        moves (n - 1) / n of those of all ranks either way."""
        link = _NETWORK_BANDWIDTH if self.networked else self.gpu.link_bandwidth
        if self.tensor * self.sharing == 1 or not link:
            return 0.0
        reduced, exchanged = self.work.layers * _ALL_REDUCES, 0.0
        if self.sharing > 1:
            groups, others = self.work.experts, self.sharing - 1
            reduced -= sum(group.layers for group in groups)
            gathered = busy * others / self.sharing
            exchanged = sum(g.layers * (gathered if self.gathered else min(others, g.top_k)) for g in groups)
        moved = reduced * (self.tensor - 1) / self.tensor + exchanged
        return 2 * moved * tokens * self.work.hidden * _ACTIVATION_BYTES / (self.coefficients.link * link)

    @cached_property
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
        networked=shape.tensor * (shape.data if request.facts.moe else 1) > shape.gpu.max_per_node,
        guesses=_guesses(request, shape, settings),
        calibration=calibration,
        data=shape.data,
        gathered=settings.args.get("all2all_backend", _GATHER) in (_GATHER, "naive"),
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
