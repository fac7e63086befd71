"""The numbers of the speed formula, and how far off it is.

Fitted by scripts/fit_speed.py to the public measurements in tests/data/speed.json: 25 campaigns on 14 kinds of GPU.
docs/contributing/accuracy.md has the errors, also of campaigns that were left out of the fit.
"""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Band


@dataclass(frozen=True)
class Coefficients:
    """Shares have no unit; what is counted per layer, GPU, step or request is in seconds.

    bandwidth: share of the memory bandwidth that a step reaches. step_compute, prompt_compute: share of the peak FLOP/s
    in decode steps and in prompts, of dense models; step_compute_moe, prompt_compute_moe: of MoE. layer: of each layer
    and step, for its kernels. expert_layer: more for a layer with experts, but on Blackwell, whose kernels fuse all of
    it. pcie_rank: for each layer and each further GPU of a TP group without NVLink. prompt_layer,
    prompt_layer_blackwell: for each layer of a step with prompts, whose kernels are not all in a CUDA graph. link:
    share of the links' bandwidth that an all-reduce reaches. request: from the socket to the scheduler. old_step,
    old_request: for each step, and each request in it, of the engine before 0.8 (V0). amd: factor of a step.
    """

    bandwidth: float
    step_compute: float
    step_compute_moe: float
    prompt_compute: float
    prompt_compute_moe: float
    layer: float
    expert_layer: float
    pcie_rank: float
    prompt_layer: float
    prompt_layer_blackwell: float
    link: float
    request: float
    old_step: float
    old_request: float
    amd: float


@dataclass(frozen=True)
class Errors:
    """Measured over computed figures: the band that holds in eight of ten cases."""

    ttft: Band
    tpot: Band
    throughput: Band


FITTED = Coefficients(
    bandwidth=0.92,
    step_compute=0.55,
    step_compute_moe=0.16,
    prompt_compute=0.59,
    prompt_compute_moe=0.375,
    layer=70e-6,
    expert_layer=54e-6,
    pcie_rank=30e-6,
    prompt_layer=1.15e-3,
    prompt_layer_blackwell=0.61e-3,
    link=0.27,
    request=5e-3,
    old_step=2.7e-3,
    old_request=57e-6,
    amd=1.26,
)

DENSE = Errors(ttft=Band(0.60, 1.0, 1.40), tpot=Band(0.84, 1.0, 1.13), throughput=Band(0.72, 1.0, 1.20))
MOE = Errors(ttft=Band(0.62, 1.0, 1.50), tpot=Band(0.70, 1.0, 1.48), throughput=Band(0.66, 1.0, 1.45))
UNCERTAIN = 1.3
"""Factor of the bands of what has few measurements or none (figures.extrapolations)."""
