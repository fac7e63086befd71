"""What the planner is asked: one service, the facts of its model, and the GPUs and engine it may use."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason, Throughput, Verdict
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.engine.parallelism import Division
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import Draft, EstimateCache, MemoryEstimate
from rayllm_ctl.planner.memory.checkpoint import unexplained_bytes
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.speed.lengths import Mix
from rayllm_ctl.planner.speed.work import ModelWork, model_work


@dataclass(frozen=True)
class Request:
    """One question to the planner.

    gpus: the kinds to choose from (one when the user named it); catalog: all that may be suggested.
    checkpoint_bytes: what is read at start; None: derived from the facts. newest: the newest engine known, to be
    suggested where `engine` does not support the model. hand_sized: the user fixed the number of replicas. notes: what
    the look-up of the facts had to say. draft: the model that guesses ahead; caveats: what could not be looked up, so
    that nothing fits for sure. calibrations: what was measured of any model. works, cache: what was computed for the
    same facts before, filled as it is needed: most of it holds for every GPU.
    """

    service: LLMService
    facts: ModelFacts
    source: str
    engine: EngineFacts
    gpus: tuple[GPU, ...]
    catalog: tuple[GPU, ...] = ()
    checkpoint_bytes: int | None = None
    newest: EngineFacts | None = None
    hand_sized: bool = False
    notes: tuple[str, ...] = ()
    draft: Draft | None = None
    caveats: tuple[Reason, ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    works: dict[tuple[str | None, str, str | None], ModelWork] = field(default_factory=dict, repr=False, compare=False)
    cache: EstimateCache = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def unexplained(self) -> int:
        """Bytes that the checkpoint holds beyond what its config describes; below 0: that it lacks."""
        return unexplained_bytes(self.facts, self.checkpoint_bytes)

    @property
    def planned_by_files(self) -> int:
        """Bytes by which the weights are planned otherwise than their config describes: those of quantized ones are as
        large as their files, and a model in 16 bits is made as its config describes it, whatever its files hold."""
        return self.unexplained if self.facts.quantization else 0

    @property
    def names_hardware(self) -> bool:
        """Whether the user said which GPUs a replica has, and how many."""
        parallelism = self.service.parallelism
        return len(self.gpus) == 1 and (parallelism.tensor is not None or parallelism.pipeline is not None)

    def division(self, gpu: GPU) -> Division:
        """How the layers of the model, and of a draft model, are divided on GPUs of a kind."""
        options = read_options(self.service.engine.args)
        return Division(
            self.engine.release,
            options.expert_parallel,
            computes_fp8="fp8" in gpu.flops,
            data=options.data if self.facts.moe else 1,
        )

    @property
    def data(self) -> int:
        """Ranks of data parallelism in a replica."""
        return read_options(self.service.engine.args).data

    def work(self, settings: ResolvedSettings) -> ModelWork:
        """What one token costs at these settings."""
        key = (settings.dtype, settings.kv_cache_dtype, settings.quantization)
        if key not in self.works:
            self.works[key] = model_work(
                self.facts,
                dtype=settings.dtype,
                kv_cache_dtype=settings.kv_cache_dtype,
                quantization=settings.quantization,
                release=self.engine.release,
            )
        return self.works[key]

    def calibration(self, shape: Shape, settings: ResolvedSettings) -> Calibration | None:
        """What was measured of this model at `shape` and these settings."""
        wanted = self.calibrated_part(shape, settings)
        return next((one for one in self.calibrations if one.holds_for == wanted), None)

    def calibrated_part(self, shape: Shape, settings: ResolvedSettings) -> tuple[str, str, int, int, str, str, str]:
        """What a calibration has to hold for."""
        quantization = self.service.engine.quantization or settings.quantization or ""
        cache = "" if settings.kv_cache_dtype == "auto" else settings.kv_cache_dtype
        place = (self.service.model.id, shape.gpu.name, shape.tensor, shape.pipeline)
        return (*place, self.engine.version, quantization, cache)


@dataclass(frozen=True)
class Workload:
    """The load that a plan is judged by. Lengths in tokens of an average request; concurrency in requests at once.

    stated: the user gave at least one of the figures, so replicas are sized for it. cached: tokens of a prompt that the
    prefix cache holds. per_step: tokens that a request gains in a step; more than 1 only with speculative decoding.
    mix: the lengths where they differ.
    """

    input_tokens: int
    output_tokens: int
    concurrency: int | None
    rate: float | None
    ttft: float | None
    tpot: float | None
    stated: bool
    cached: int = 0
    per_step: float = 1.0
    mix: Mix | None = None

    @property
    def length(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Shape:
    """One way to place a replica: a kind of GPU, how it is divided, how the weights are quantized while loading, and
    the ranks of data parallelism, each of which has tensor x pipeline GPUs."""

    gpu: GPU
    tensor: int
    pipeline: int
    quantization: str | None = None
    data: int = 1

    @property
    def gpus(self) -> int:
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        layout = f"DP {self.data} × " if self.data > 1 else ""
        layout += f"TP {self.tensor}" + (f" × PP {self.pipeline}" if self.pipeline > 1 else "")
        quantization = f" · {self.quantization}" if self.quantization else ""
        return f"{self.gpus} × {self.gpu.name} ({layout}{quantization})"


@dataclass(frozen=True)
class Candidate:
    """One shape, judged. `estimate` is None if it was refused before memory was looked at.

    price: USD per hour of one replica at the median price; None if no price is known.
    """

    shape: Shape
    verdict: Verdict
    reasons: tuple[Reason, ...]
    settings: ResolvedSettings | None = None
    estimate: MemoryEstimate | None = None
    throughput: Throughput | None = None
    replicas: int = 1
    max_replicas: int = 1
    price: float | None = None

    @property
    def runs(self) -> bool:
        return self.verdict in ("fits", "risky")

    @property
    def total_price(self) -> float | None:
        """USD per hour of all replicas."""
        return None if self.price is None else self.price * self.replicas
