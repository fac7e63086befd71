"""Time to first token, time per token and throughput of one replica at a load, from the times of its steps."""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Band, Figures, LongPrompt
from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.coefficients import DENSE, MOE, UNCERTAIN, Errors
from rayllm_ctl.planner.speed.lengths import Mix
from rayllm_ctl.planner.speed.replica import ReplicaSpeed

_BUSIEST = 0.95
"""The share of the time for prompts above which the queue's formula no longer holds."""

_HALVINGS = 40


@dataclass(frozen=True)
class Likely:
    """The likely figures of one replica: seconds to the first token and per further token, tokens/s, requests/s."""

    ttft: float
    tpot: float
    output_tokens_per_second: float
    requests_per_second: float


def likely(rate: ReplicaSpeed, load: Workload, batch: float) -> Likely:
    """Of `batch` requests in flight, each replaced as soon as it ends.

    Prompts and answers share the GPUs, so a request takes the time of its prompt and its share of every step, but no
    less than if it were alone. Its prompt rides in as many steps as it has chunks, and waits for prompts before it as
    in a queue with even service times: busy share x prompt / 2 / (1 - busy share). Where lengths differ and requests
    arrive by themselves (a rate), they meet long prompts more often than short ones: E[prompt^2] / E[prompt] stands for
    the prompt (Pollaczek-Khinchine). A request that replaces another comes at the end of a step, and does not. What the
    prefix cache holds of a prompt is not computed.
    By Little's law, requests in flight are their rate x the time of each; no step takes longer than one that is full of
    prompts, so the rest of that time is spent waiting for the first token. With data parallelism the requests are
    spread evenly over the ranks, and these figures are of one rank.
    """
    ranks = min(float(rate.data), batch)
    batch /= ranks
    mix = load.mix
    context = mix.contexts if mix else load.input_tokens + load.output_tokens / 2
    step = rate.step(batch, context, guess=load.per_step > 1, ranks=ranks)
    decode = step / load.per_step
    if mix is None:
        computed: float = load.input_tokens - load.cached
        prompt = met = rate.prompt(computed, after=load.cached, ranks=ranks)
        steps: float = rate.chunks(computed, batch)
    else:
        computed, prompt, met, steps = _prompts(rate, load, mix, batch, ranks)
    alone = rate.coefficients.request + prompt + steps * (rate.prompt_overhead() + step)
    shared = prompt / rate.pipeline + load.output_tokens * decode / batch
    each = max(shared, (alone + load.output_tokens * decode) / batch)
    busy = min(_BUSIEST, prompt / rate.pipeline / each) if batch > 1 else 0.0
    ttft = alone + busy * met / (2 * (1 - busy))
    full = decode + rate.prompt_overhead() + prompt * rate.chunk / computed
    tpot = min(max(decode, (batch * each - ttft) / load.output_tokens), full)
    answered = ranks / each
    return Likely(batch * each - load.output_tokens * tpot, tpot, load.output_tokens * answered, answered)


def _prompts(
    rate: ReplicaSpeed, load: Workload, mix: Mix, batch: float, ranks: float
) -> tuple[float, float, float, float]:
    """Means over prompts: tokens that are computed, seconds of computing them, those of a prompt that others wait for,
    and steps."""
    mean, square = rate.prompts(mix.prompts, load.cached, ranks)
    left = [(share, tokens - min(load.cached, tokens - 1)) for share, tokens in mix.prompts]
    return (
        sum(share * tokens for share, tokens in left),
        mean,
        mean if load.rate is None else square / mean,
        sum(share * rate.chunks(tokens, batch) for share, tokens in left),
    )


def long_prompt(rate: ReplicaSpeed, load: Workload, batch: float) -> LongPrompt | None:
    """The time to the first token of a prompt that is longer than most; None if all are of one length. Other prompts
    delay it as they delay an average one."""
    mix = load.mix
    if mix is None:
        return None
    found, ranks = likely(rate, load, batch), min(float(rate.data), batch)
    batch /= ranks
    _, usual, _, usual_steps = _prompts(rate, load, mix, batch, ranks)
    held = min(load.cached, mix.long_prompt - 1)
    longer = rate.prompt(mix.long_prompt - held, after=held, ranks=ranks) - usual
    steps = rate.chunks(mix.long_prompt - held, batch) - usual_steps
    step = rate.step(batch, mix.contexts, guess=load.per_step > 1, ranks=ranks)
    ttft = found.ttft + longer + steps * (rate.prompt_overhead() + step)
    measured = rate.calibration.ttft if rate.calibration else 1.0
    return LongPrompt(mix.long_prompt, _times(_errors(rate).ttft, ttft * measured))


def at_load(rate: ReplicaSpeed, load: Workload, batch: float) -> Figures:
    """The figures of `batch` requests in flight with their bands. A calibration multiplies what comes out."""
    found, off = likely(rate, load, batch), _errors(rate)
    measured = rate.calibration
    ttft, tpot, throughput = (measured.ttft, measured.tpot, measured.throughput) if measured else (1.0, 1.0, 1.0)
    return Figures(
        _times(off.ttft, found.ttft * ttft),
        _times(off.tpot, found.tpot * tpot),
        _times(off.throughput, found.output_tokens_per_second * throughput),
        _times(off.throughput, found.requests_per_second * throughput),
    )


def in_flight(rate: float, answered: Callable[[float], float], most: float) -> float | None:
    """How many requests are in flight where `rate` of them arrive per second and `answered(n)` are answered with n in
    flight; None if even `most` in flight are too few."""
    if answered(most) < rate:
        return None
    if answered(1.0) >= rate:
        return 1.0
    low, high = 1.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if answered(middle) < rate else (low, middle)
    return high


def _errors(rate: ReplicaSpeed) -> Errors:
    known = MOE if rate.moe else DENSE
    if not rate.rarely_measured:
        return known
    return Errors(_wider(known.ttft), _wider(known.tpot), _wider(known.throughput))


def _wider(band: Band) -> Band:
    return Band(band.low / UNCERTAIN, band.typical, band.high * UNCERTAIN)


def _times(band: Band, value: float) -> Band:
    return Band(band.low * value, band.typical * value, band.high * value)
