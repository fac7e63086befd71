"""The load of a service's replicas, from successive samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import field

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.health import QueueState
from rayllm_ctl.model.observed.ray_metrics import PodGPUs, pod_gpus, requests_in_replicas
from rayllm_ctl.model.observed.token_rates import Rate, TokenRates
from rayllm_ctl.model.observed.vllm_metrics import NO_METRICS, EngineReading, replica_readings
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class ReplicaLook:
    """The sample of a running replica. None: not read.

    replica: Serve's id; None of vLLM's own server. engine: the metrics in which its engine's are; ray: those of Ray in
    its pod, the same text for a replica of Serve. has_gpus: whether its pod requests GPUs.
    """

    model: str
    replica: str | None
    pod: str
    node: str | None
    has_gpus: bool | None
    engine: str | None
    ray: str | None


@dataclass(frozen=True)
class ServiceLook:
    """The running replicas of a service, its queue (None: it has none), and why something could not be read.

    report_interval: seconds between two reports of Ray's metrics; None if engines are asked themselves.
    """

    replicas: tuple[ReplicaLook, ...]
    report_interval: float | None
    queue: QueueState | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplicaLoad:
    """The load of one replica; None: not known. kv_cache_usage: from 0 to 1. gpus: those of its pod."""

    model: str
    replica: str | None
    running: int | None
    waiting: int | None
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    kv_cache_usage: float | None
    gpus: PodGPUs | None
    pod: str
    node: str | None


@dataclass(frozen=True)
class ServiceLoad:
    """The load of a service's running replicas; None: not known. queue: of its gateway. problems: why something is not
    known."""

    replicas: tuple[ReplicaLoad, ...] | None
    queue: QueueState | None = field(default=None, metadata=OMIT_NONE)
    problems: tuple[str, ...] = ()


class LoadMeter:
    """The load of one service, look after look. rates_missing: whether the last look came too early for a rate."""

    def __init__(self) -> None:
        self.rates_missing = False
        self._rates = TokenRates()

    def load(self, look: ServiceLook, now: float) -> ServiceLoad:
        """The load from a sample and the previous ones. now: seconds of a clock."""
        self.rates_missing = False
        reasons: dict[str, list[str]] = defaultdict(list)
        in_pod = Counter(one.pod for one in look.replicas)
        rows = []
        for one in look.replicas:
            state, reason = _state(one, alone=in_pod[one.pod] == 1)
            if reason:
                reasons[reason].append(_label(one))
            gpus = pod_gpus(one.ray) if one.ray is not None else None
            if gpus is None and one.ray is not None and one.has_gpus is not False:
                reasons["Ray's metrics have no GPU figures"].append(one.pod)
            rate = self._rate(one, state, now, look.report_interval)
            rows.append(_row(one, state, rate, gpus))
        problems = [f"{reason}: {', '.join(dict.fromkeys(which))}" for reason, which in reasons.items()]
        if look.replicas and all(one.has_gpus is False for one in look.replicas) and not any(row.gpus for row in rows):
            problems.append("no GPUs: the pods request none")
        if self.rates_missing:
            problems.append(_too_early(look.report_interval))
        return ServiceLoad(tuple(rows), look.queue, (*look.problems, *problems))

    def _rate(self, look: ReplicaLook, state: _State | None, now: float, interval: float | None) -> Rate | None:
        if state is None:
            return None
        engine = state.engine
        counters = (engine.prompt_tokens, engine.generation_tokens) if engine else (0.0, 0.0)
        rate = self._rates.rate(_label(look), *counters, now, interval)
        if engine is None:
            return None  # whether the engine will ever count is not known
        if state.is_silent:
            return 0.0, 0.0
        self.rates_missing = self.rates_missing or rate is None
        return rate


@dataclass(frozen=True)
class _State:
    """A replica whose metrics were read. engine: None if it has said nothing yet. is_silent: it has made no step for
    two report intervals. processing: the requests that Serve has in the replica."""

    engine: EngineReading | None
    is_silent: bool = False
    processing: int | None = None


def _state(look: ReplicaLook, alone: bool) -> tuple[_State | None, str]:
    """The state of a replica, and why it is not known in full. alone: no other replica is in the pod."""
    if look.engine is None:
        return None, ""
    readings = replica_readings(look.engine)
    if look.replica is None:
        engine = readings.get("")
        return _State(engine), "" if engine else NO_METRICS
    engine = readings.get(look.replica) or (readings.get("") if alone else None)
    processing = requests_in_replicas(look.engine).get(look.replica)
    if engine is None:
        return _State(None, processing=processing), NO_METRICS
    silent = engine.running is None
    stuck = silent and processing != 0
    return _State(engine, silent, processing), _no_step(processing) if stuck else ""


def _row(look: ReplicaLook, state: _State | None, rate: Rate | None, gpus: PodGPUs | None) -> ReplicaLoad:
    engine = state.engine if state else None
    # Nothing can run in an engine whose replica has no requests, and then its KV cache is free (v1/core/block_pool.py).
    idle = state is not None and state.processing == 0 and (engine is None or state.is_silent)
    usage = engine.kv_cache_usage if engine else None
    return ReplicaLoad(
        model=look.model,
        replica=look.replica,
        running=0 if idle else engine.running if engine else None,
        waiting=0 if idle else engine.waiting if engine else None,
        prompt_tokens_per_second=round(rate[0], 2) if rate else None,
        generation_tokens_per_second=round(rate[1], 2) if rate else None,
        kv_cache_usage=0.0 if idle and engine else usage,
        gpus=gpus,
        pod=look.pod,
        node=look.node,
    )


def _no_step(processing: int | None) -> str:
    held = "an unknown number of requests" if processing is None else f"{processing} request{'s' * (processing != 1)}"
    return f"the engine makes no step, with {held} in the replica"


def _too_early(interval: float | None) -> str:
    if interval is None:
        return "tokens/s are known from the second reading on"
    return f"tokens/s are known after the next report of Ray, which comes every {interval:g} s"


def _label(look: ReplicaLook) -> str:
    return look.pod if look.replica is None else f"{look.replica} in {look.pod}"
