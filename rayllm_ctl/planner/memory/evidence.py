"""How much wider a band is for what has not been measured.

The formulas rest on start-up logs of few kinds of GPU, versions and architectures. Where a case lies outside them, each
thing that is not known adds a spread of its own, so that the width of a band follows from what is known about it.
`LOGS` says what was measured; docs/contributing/measurements.md explains the spreads.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner.memory.engine import Release


@dataclass(frozen=True)
class Spread:
    """What may be taken beyond the formulas, or left of them, in bytes. reason: for people, without its figures."""

    reason: str
    more: float
    less: float


@dataclass(frozen=True)
class Logs:
    """Start-up logs that the formulas agree with: GPUs by architecture and link, releases from `since` to `until`, the
    model runner, and which kinds of models, TP and ways of quantization they cover."""

    gpus: frozenset[tuple[str, str]]
    since: Release
    until: Release
    second_runner: bool
    kinds: frozenset[str] = frozenset()
    tensors: frozenset[int] = frozenset({1})
    schemes: frozenset[str] = frozenset()

    def covers(self, release: Release) -> bool:
        return self.since <= release <= self.until


_HOPPER = frozenset({("Hopper", "nvlink")})
_A100 = frozenset({("Ampere", "nvlink")})
_AMPERE = frozenset({("Ampere", "pcie")})
_ADA = frozenset({("Ada", "pcie")})

_TRITON = "experts on Triton"
_LATENT = "latent attention"
_SPARSE = "sparse latent attention"
_RECURRENT = "recurrent layers"
_ENCODERS = "encoders"
_STREAMS = "parallel residual streams"
_GENERIC = "an architecture that is not known here"

LOGS: tuple[Logs, ...] = (
    Logs(
        _HOPPER,
        (0, 15, 0),
        (0, 19, 99),
        second_runner=False,
        kinds=frozenset({_TRITON, _LATENT, _ENCODERS}),
        tensors=frozenset({1, 2, 4}),
        schemes=frozenset({"fp8", "compressed-tensors"}),
    ),
    Logs(
        _HOPPER,
        (0, 10, 2),
        (0, 14, 99),
        second_runner=False,
        kinds=frozenset({_TRITON, "experts on OpenAI Triton", _ENCODERS, _RECURRENT}),
        tensors=frozenset({1, 2}),
        schemes=frozenset({"mxfp4"}),
    ),
    Logs(
        _A100,
        (0, 15, 0),
        (0, 19, 99),
        second_runner=False,
        kinds=frozenset({"experts on Marlin"}),
        schemes=frozenset({"mxfp4"}),
    ),
    Logs(_AMPERE, (0, 13, 0), (0, 13, 99), second_runner=False, kinds=frozenset({_ENCODERS})),
    Logs(_HOPPER, (0, 26, 0), (0, 26, 99), second_runner=True, kinds=frozenset({_LATENT, _TRITON})),
    Logs(
        _HOPPER,
        (0, 26, 0),
        (0, 26, 99),
        second_runner=False,
        kinds=frozenset({"experts on OpenAI Triton", _TRITON}),
        schemes=frozenset({"mxfp4"}),
    ),
    Logs(_ADA, (0, 28, 0), (0, 29, 99), second_runner=True, tensors=frozenset({1, 2}), schemes=frozenset({"awq"})),
)
"""The rows of tests/data/measured.json, by kind."""

_GPU_SHARE, _GPU_LEAST = 0.010, 0.35 * GIB
_VERSION = 0.45 * GIB
_RUNNER = 0.8 * GIB
_TENSOR = 0.6 * GIB
_DATA = 1.0 * GIB
"""Buffers of the exchange between ranks, beside half of the experts' workspace: an assumption, no log shows them."""

_LESS = 0.6
"""Of a spread to one side, what it is to the other: what is not known rather takes memory than gives it."""

_EXPERTS = 0.6 * GIB
_KINDS = {_LATENT: 0.5, _SPARSE: 2.0, _RECURRENT: 0.9, _ENCODERS: 0.5, _STREAMS: 1.5, _GENERIC: 1.5}
"""GiB that a kind of model without a log of its own may take: half of it where only another GPU, runner or version was
measured. The worst misses among logs of each kind before its rule was found."""

_UNWEIGHED = 0.08
"""Of the weights, where the usual fields of a config are all that is known of them: read so, five of six models of the
catalog are within 2 %, and seven of eight within 8 %."""

_SCHEMES = 0.02
_SCHEME_ELSEWHERE = 0.012
"""Of the weights: a way of quantization that no log shows, or that only other GPUs or versions do (largest misses:
mxfp4 1.9 %, AWQ 1.9 %)."""


@dataclass(frozen=True)
class EvidenceQuery:
    """What decides whether logs exist: the model, where it runs, and the bytes of what is uncertain about it."""

    facts: ModelFacts
    gpu: GPU
    release: Release
    second_runner: bool
    tensor: int
    data: int
    kernel: str
    scheme: str
    weights: int
    workspace: int
    encoder: int


def spreads(query: EvidenceQuery) -> Iterator[Spread]:
    """What no log shows about a case."""
    gpu = (query.gpu.architecture, query.gpu.interconnect)
    version = ".".join(map(str, query.release[:2]))
    same_runner = [item for item in LOGS if item.second_runner == query.second_runner]
    here = [item for item in same_runner if gpu in item.gpus]
    near = [item for item in here if item.covers(query.release)]
    if not here:
        runner = "second" if query.second_runner else "first"
        yield _spread(f"the {runner} model runner on {query.gpu.name}", _gpu_bytes(query.gpu))
    elif not near:
        yield _spread(f"vLLM {version} on {query.gpu.name}", _VERSION)
    if not any(item.covers(query.release) for item in same_runner):
        yield _spread(f"this model runner in vLLM {version}", _RUNNER)
    if query.tensor > 1 and not any(query.tensor in item.tensors for item in near):
        yield _spread(f"TP {query.tensor} on {query.gpu.name}", _TENSOR)
    if query.data > 1:
        yield _spread("data parallelism with shared experts", _DATA + 0.5 * query.workspace)
    for kind, size in _uncertain(query):
        if any(kind in item.kinds for item in near):
            continue
        known = any(kind in item.kinds for item in LOGS)
        where = f" on {query.gpu.name} in vLLM {version}" if known else ""
        yield _spread(f"{kind}{where}", size / 2 if known else size)
    if query.scheme and not any(query.scheme in item.schemes for item in near):
        known = any(query.scheme in item.schemes for item in LOGS)
        share = _SCHEME_ELSEWHERE if known else _SCHEMES
        yield _spread(f"weights in {query.scheme}" + (f" on {query.gpu.name}" if known else ""), share * query.weights)


def _uncertain(query: EvidenceQuery) -> Iterator[tuple[str, float]]:
    """Kinds that the model is of, with the bytes that each may take."""
    facts = query.facts
    if facts.moe:
        yield f"experts on {query.kernel}", _EXPERTS + 0.5 * query.workspace
    for trait, kind in (("mla", _LATENT), ("dsa", _SPARSE), ("hybrid", _RECURRENT)):
        if trait in facts.traits:
            yield kind, _KINDS[kind] * GIB
    if query.encoder:
        yield _ENCODERS, _KINDS[_ENCODERS] * GIB + 0.5 * query.encoder
    if facts.streams > 1:
        yield _STREAMS, _KINDS[_STREAMS] * GIB
    if "generic" in facts.traits:
        yield _GENERIC, _KINDS[_GENERIC] * GIB + (0 if "weighed" in facts.traits else _UNWEIGHED * query.weights)


def _gpu_bytes(gpu: GPU) -> float:
    return _GPU_LEAST + _GPU_SHARE * gpu.memory_bytes


def _spread(what: str, size: float) -> Spread:
    return Spread(f"no measured row for {what}", size, _LESS * size)
