"""CUDA graphs: what they take, and what vLLM takes off the KV cache for them beforehand."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Band
from rayllm_ctl.planner import vllm_rules

NOTHING = Band(0.0, 0.0, 0.0)

_LARGEST = 512

_GPT_OSS = "GptOssForCausalLM"


@dataclass(frozen=True)
class Graphs:
    """Bytes per GPU: `used` once they are captured, `counted` off the budget of the KV cache."""

    used: Band
    counted: Band


def capture_sizes(most: int) -> int:
    """How many batch sizes up to `most` vLLM captures: 1, 2, 4, steps of 8 to 256 and of 16 from there
    (config/vllm.py _set_cudagraph_sizes)."""
    return sum(size <= most for size in (1, 2, 4, *range(8, 256, 8), *range(256, max(256, most) + 1, 16)))


def largest_size(facts: ModelFacts, release: tuple[int, int, int], *, seqs: int, tokens: int) -> int:
    """The largest batch that is captured: twice max_num_seqs, at most 512. gpt-oss takes more whatever
    max_num_seqs is."""
    largest = min(_LARGEST, 2 * seqs)
    if facts.architecture == _GPT_OSS and vllm_rules.GPT_OSS_CAPTURES_MORE.holds(release):
        largest = 1024 if vllm_rules.GPT_OSS_CAPTURES_1024.holds(release) else 992
    return min(largest, tokens)


def graph_memory(
    facts: ModelFacts,
    gpu: GPU,
    release: tuple[int, int, int],
    *,
    seqs: int,
    tokens: int,
    tensor: int,
    pipeline: int,
    second_runner: bool,
    monolithic: bool = False,
) -> Graphs:
    """What graphs take: the piecewise ones of all batch sizes, the full ones of those up to max_num_seqs.

    First runner, H100, 0.19: 0.37 GiB and 0.0165 a layer for 51 and 35 sizes (16 layers 0.63, 80 layers 1.69); 0.83 of
    that at TP 2, 0.74 at TP 4; 0.72 of it on L40S; 1.15 of it for mixtures, 1.74 for those with latent attention
    (DeepSeek V2 Lite 1.57, Kimi-VL 1.50, at TP 2 1.26), three times for sparse MLA. It estimates 1.19 times what it
    then takes (18 logs) and takes that off the budget since 0.21, in 0.26 half of
    the formula (gpt-oss-20b 0.58, Qwen3-30B-A3B 0.64, Qwen3-8B 0.50). The second runner estimates nothing before 0.29
    (gpu/model_runner.py), then extends the first two captures to all: 0.5 GiB for 40 layers on L40S, and up to four
    times what is taken; for mixtures no log says how much.
    """
    layers = max(1, -(-facts.layer_count // pipeline))
    largest = largest_size(facts, release, seqs=seqs, tokens=tokens)
    full = capture_sizes(min(seqs, largest))
    count = capture_sizes(largest) + full
    share = 0.10 + 0.27 * largest / _LARGEST + 0.0165 * layers * count / 86
    share *= 1.0 if gpu.memory_bytes >= 70 * GIB else 0.72
    share *= {1: 1.0, 2: 0.83}.get(tensor, 0.74)
    share *= _kind_factor(facts, monolithic=monolithic)
    if gpu.vendor == "amd":
        used = _gib(0.5 * share, 1.5 * share, 5.0 * share)
        return Graphs(used, used if vllm_rules.SECOND_RUNNER_BUDGETS_GRAPHS.holds(release) else NOTHING)
    used = _gib(0.6 * share, share, 1.7 * share)
    budgeted = vllm_rules.SECOND_RUNNER_BUDGETS_GRAPHS if second_runner else vllm_rules.GRAPHS_ARE_BUDGETED
    if not budgeted.holds(release):
        return Graphs(used, NOTHING)
    if second_runner:
        typical = 0.25 + 0.0085 * layers * full / 35
        most = max(3.0 * typical, (4.0 if facts.moe else 2.0) * share)
        return Graphs(used, _gib(0.4 * typical, typical, most))
    if vllm_rules.GRAPHS_ARE_ESTIMATED_LOWER.holds(release):
        return Graphs(used, _gib(0.3 * share, 0.5 * share, 1.4 * share))
    return Graphs(used, _gib(0.6 * share, 1.19 * share, 2.4 * share))


def _kind_factor(facts: ModelFacts, *, monolithic: bool) -> float:
    """How much more the graphs of a kind of model take than a dense one's; experts in one kernel add nothing
    (gpt-oss-20b on H100, 0.26: 1.04 GiB)."""
    if "dsa" in facts.traits:
        return 3.0
    if not facts.moe or monolithic:
        return 1.0
    return 1.74 if "mla" in facts.traits else 1.15


def _gib(low: float, typical: float, high: float) -> Band:
    return Band(low * GIB, typical * GIB, high * GIB)
