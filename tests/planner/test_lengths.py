"""Predictions for requests of many lengths, beside an engine that is simulated step by step."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rayllm_ctl.loadtest.prompts import draw
from rayllm_ctl.loadtest.settings import Length
from rayllm_ctl.model.plan.plan import Band, MemoryPlan
from rayllm_ctl.model.spec.service import Load
from rayllm_ctl.model.text.lengths import average, parse_lengths
from rayllm_ctl.planner.engine.settings import load_context
from rayllm_ctl.planner.memory import KVGroup, MemoryEstimate
from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.coefficients import FITTED
from rayllm_ctl.planner.speed.figures import at_load, in_flight, likely, long_prompt
from rayllm_ctl.planner.speed.lengths import mixed
from rayllm_ctl.planner.speed.replica import ReplicaSpeed
from rayllm_ctl.planner.speed.sizing import request_capacity
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.facts import dense
from tests.planner.gpus import H100
from tests.planner.known import facts_of

CONTEXT = 32768


def rate(model: str = "") -> ReplicaSpeed:
    """Without the cost of a step with prompts, which the formula counts once for each request."""
    facts = facts_of(model) if model else dense()
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    return ReplicaSpeed(work, H100, 1, 1, 8192, coefficients=replace(FITTED, prompt_layer=0.0))


def load(prompts: str, answers: str, cached: int = 0) -> Workload:
    mix = mixed(parse_lengths(prompts), parse_lengths(answers), CONTEXT)
    return Workload(
        mix.input_tokens, mix.output_tokens, None, None, None, None, stated=False, cached=cached, mix=mix
    )  # fmt: skip


def of_mean_length(mixed_load: Workload) -> Workload:
    return replace(mixed_load, mix=None)


def drawn(prompts: str, answers: str, seed: int = 1) -> Iterator[tuple[int, int]]:
    """Requests as `bench` makes them, those that the context holds."""
    given, answered = (Length(one.kind, one.low, one.high, one.sigma) for one in map(parse_lengths, (prompts, answers)))
    source = random.Random(seed)
    while True:
        prompt = draw(given, source)
        if prompt < CONTEXT:
            yield prompt, min(draw(answered, source), CONTEXT - prompt)


def simulated(
    replica: ReplicaSpeed, requests: Iterator[tuple[int, int]], count: int, batch: int | None, arrivals: float = 0.0
) -> tuple[float, float]:
    """(output tokens/s, mean seconds to the first token) of `count` requests, after as many that do not count, of an
    engine with chunked prefill: with `batch` of them at any time, or with so many arrivals per second."""
    clock = begin = tokens = 0.0
    ended, firsts = 0, []
    waiting: deque[list[float]] = deque()  # tokens of the prompt, of the answer, those computed, when it came
    running: list[list[int]] = []  # tokens so far, tokens to come
    source = random.Random(5)
    following = source.expovariate(arrivals) if arrivals else 0.0
    while ended < 2 * count:
        if batch is not None:
            while len(waiting) + len(running) < batch:
                waiting.append([*next(requests), 0, clock + replica.coefficients.request])
        else:
            while following <= clock:
                waiting.append([*next(requests), 0, following + replica.coefficients.request])
                following += source.expovariate(arrivals)
        present = [one for one in waiting if one[3] <= clock]
        if not running and not present:
            clock = max(clock, waiting[0][3] if waiting else following)
            continue
        step = replica.step(max(1, len(running)), sum(one[0] for one in running) / max(1, len(running)))
        room, first = float(replica.chunk - len(running)), []
        for one in present:
            part = min(room, one[0] - one[2])
            if part <= 0:
                break
            step += replica.prompt(part, after=one[2])
            one[2], room = one[2] + part, room - part
            if one[2] == one[0]:
                first.append(one)
        clock += step
        for request in running:
            request[0], request[1] = request[0] + 1, request[1] - 1
        tokens += len(running) if begin else 0
        for one in first:
            waiting.remove(one)
            running.append([int(one[0]), int(one[1])])
            if begin:
                firsts.append(clock - one[3] + replica.coefficients.request)
        left = [one for one in running if one[1] > 0]
        ended, running = ended + len(running) - len(left), left
        begin = begin or (clock if ended >= count else 0.0)
    return tokens / (clock - begin), sum(firsts) / len(firsts)


SKEWED = "lognormal:1000:1.2:16000"


@pytest.mark.parametrize(
    ("prompts", "answers", "batch"),
    [
        ("200", SKEWED, 96),
        ("lognormal:1500:1:16000", "uniform:10:400", 32),
        ("uniform:100:6000", "lognormal:200:1.2:8000", 64),
        ("lognormal:4000:1:30000", "uniform:10:100", 8),
    ],
)
def test_the_speed_is_that_of_a_simulated_engine(prompts: str, answers: str, batch: int) -> None:
    tokens, _ = simulated(rate(), drawn(prompts, answers), 1500, batch)
    assert likely(rate(), load(prompts, answers), batch).output_tokens_per_second == pytest.approx(tokens, rel=0.06)


def test_the_average_length_is_too_fast_where_answers_differ() -> None:
    """In flight are mostly requests with long answers: 4,500 tokens before a step, not 1,200."""
    tokens, _ = simulated(rate(), drawn("200", SKEWED), 1500, 96)
    assert likely(rate(), of_mean_length(load("200", SKEWED)), 96).output_tokens_per_second > 1.4 * tokens


@pytest.mark.parametrize(("prompts", "arrivals"), [("lognormal:1500:1:16000", 7.0), ("lognormal:4000:1:30000", 3.5)])
def test_requests_that_arrive_wait_for_long_prompts(prompts: str, arrivals: float) -> None:
    replica, answers = rate(), "uniform:10:100"
    wanted = replace(load(prompts, answers), rate=arrivals)
    _, ttft = simulated(replica, drawn(prompts, answers), 3000, None, arrivals)

    def predicted(of: Workload) -> float:
        batch = in_flight(arrivals, lambda number: likely(replica, of, number).requests_per_second, 256)
        assert batch is not None
        return likely(replica, of, batch).ttft

    assert predicted(wanted) == pytest.approx(ttft, rel=0.25)
    assert predicted(of_mean_length(wanted)) < 0.75 * ttft


def blocks_held(requests: Iterator[tuple[int, int]], blocks: int, steps: int) -> float:
    """The mean number in flight where a request is admitted as soon as its prompt has blocks of 16 tokens, and the last
    one starts again where they run out."""
    running: list[tuple[int, int, int]] = []  # tokens, to come, of the prompt
    preempted: list[tuple[int, int]] = []
    seen = 0
    for step in range(2 * steps):
        running = [(length + 1, left - 1, prompt) for length, left, prompt in running if left > 1]
        taken = sum(-(-length // 16) for length, _, _ in running)
        while taken > blocks:
            length, left, prompt = running.pop()
            preempted.append((prompt, left + length - prompt))
            taken -= -(-length // 16)
        while True:
            prompt, answer = preempted.pop() if preempted else next(requests)
            if taken + -(-prompt // 16) > blocks:
                preempted.append((prompt, answer))
                break
            running.append((prompt, answer, prompt))
            taken += -(-prompt // 16)
        seen += len(running) if step >= steps else 0
    return seen / steps


def memory(blocks: float) -> MemoryEstimate:
    band = Band(blocks, blocks, blocks)
    plan = MemoryPlan(80, 72, 20, 20, 1, 1, 1, band, band, band)
    group = KVGroup("full", 8, 16, 1, 2048)
    return MemoryEstimate(plan, band, band, band, 16, 1, band, (group,), 2**30, Band(0, 0, 0), ())


def test_the_kv_cache_holds_what_a_simulated_one_does() -> None:
    prompts, answers, blocks = "uniform:100:900", "lognormal:600:1.1:8000", 20_000
    held = blocks_held(drawn(prompts, answers), blocks, 12_000)
    wanted = load(prompts, answers)
    assert request_capacity(memory(blocks), wanted).typical == pytest.approx(held, rel=0.08)
    assert request_capacity(memory(blocks), of_mean_length(wanted)).typical > 1.5 * held


def test_the_sure_number_of_requests_fits_in_nearly_all_draws() -> None:
    """Requests that are about to end, drawn as they are in flight: by the length of their answers."""
    blocks, wanted = 20_000, load("uniform:100:900", "lognormal:600:1.1:8000")
    sure = int(request_capacity(memory(blocks), wanted).low)
    source, all_requests = random.Random(2), drawn("uniform:100:900", "lognormal:600:1.1:8000")
    population = [next(all_requests) for _ in range(20_000)]
    answers = [answer for _, answer in population]

    def fits(number: int) -> bool:
        return sum(-(-(p + a) // 16) for p, a in source.choices(population, answers, k=number)) <= blocks

    assert 0.90 <= sum(fits(sure) for _ in range(400)) / 400 <= 0.99
    assert sum(fits(int(1.4 * sure)) for _ in range(100)) == 0


def test_classes_of_one_length_say_what_the_length_says() -> None:
    replica, wanted = rate(), load("1024", "256")
    assert likely(replica, wanted, 16) == likely(replica, of_mean_length(wanted), 16)
    held = request_capacity(memory(5000), of_mean_length(wanted))
    assert request_capacity(memory(5000), wanted).typical == pytest.approx(held.typical)
    assert request_capacity(memory(5000), wanted).low == pytest.approx(held.low)


def test_windows_read_no_more_than_they_hold() -> None:
    """Of a model whose layers see a window, long contexts cost less than their mean would where all see everything."""
    replica, mix = rate("google/gemma-3-27b-it"), load("lognormal:4000:1.2", "100").mix
    assert mix is not None
    by_class = sum(share * replica.work.cache_bytes(tokens, 1) for share, tokens in mix.contexts)
    mean = sum(share * tokens for share, tokens in mix.contexts)
    assert by_class < replica.work.cache_bytes(mean, 1)
    assert replica.step(8, mix.contexts) < replica.step(8, mean)


def test_a_long_prompt_waits_as_others_and_computes_longer() -> None:
    replica, wanted = rate(), load("lognormal:1000:1:16000", "100")
    long, usual = long_prompt(replica, wanted, 8), at_load(replica, wanted, 8)
    assert long is not None
    assert 4500 < long.input_tokens < 6500
    assert long.ttft.typical > 1.5 * usual.ttft.typical
    assert long_prompt(replica, of_mean_length(wanted), 8) is None


def test_the_prefix_cache_holds_no_more_than_a_prompt() -> None:
    """All prompts begin alike, and the last token of each is computed."""
    replica = rate()
    cold, warm = (likely(replica, load("uniform:1:1000", "50", cached), 4).ttft for cached in (0, 400))
    assert warm < cold


def test_prompts_that_exceed_the_context_are_left_out() -> None:
    mix = mixed(parse_lengths("uniform:1001:2000"), parse_lengths("10"), 1501)
    assert mix.beyond == pytest.approx(0.5, abs=0.03)
    assert mix.input_tokens == pytest.approx(1250, abs=20)
    assert max(tokens for _, tokens in mix.ends) <= 1501


@pytest.mark.parametrize("text", ["7", "uniform:1:3", "uniform:100:5000", "lognormal:300:0.6:2000", "lognormal:50:1.2"])
def test_classes_have_the_moments_of_what_bench_draws(text: str) -> None:
    lengths = parse_lengths(text)
    source = random.Random(3)
    many = [draw(Length(lengths.kind, lengths.low, lengths.high, lengths.sigma), source) for _ in range(200_000)]
    classes = lengths.classes()
    assert sum(share for share, _ in classes) == pytest.approx(1)
    assert lengths.mean == pytest.approx(sum(many) / len(many), rel=0.02)
    square = sum(share * tokens**2 for share, tokens in classes)
    assert square == pytest.approx(sum(one**2 for one in many) / len(many), rel=0.06)


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "x", "1.5", "uniform:5", "uniform:9:5", "uniform:0:5", "lognormal:5", "lognormal:5:nan",
     "lognormal:5:-1", "lognormal:5:10", "lognormal:5:1:4", "lognormal:5:1:4:6", "normal:5:1", "uniform:1:99999999"],
)  # fmt: skip
def test_other_forms_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="uniform:MIN:MAX"):
        parse_lengths(text)


def test_the_context_holds_nearly_all_requests() -> None:
    assert load_context(Load(input_tokens="uniform:100:5000", output_tokens=200)) == 5200
    assert load_context(Load(input_tokens="lognormal:1000:0.5:100000")) > 4000
    assert average("uniform:100:300") == 200
