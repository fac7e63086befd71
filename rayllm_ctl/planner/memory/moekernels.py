"""Which kernel runs the routed experts, by version and GPU, and what follows for their memory."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import Experts, ModelFacts, Scheme
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.memory.engine import Release, major
from rayllm_ctl.planner.memory.shards import Padding, is_mxfp4

_PLAIN = Padding()


@dataclass(frozen=True)
class ExpertKernel:
    """name: for messages. monolithic: it routes and computes in one call and keeps no workspace of the modular kernels
    (fused_moe/modular_kernel.py FusedMoEExpertsMonolithic). padding: of mxfp4 experts. rearranged: it lays the weights
    out again after they are loaded, which leaves holes in the allocator.
    """

    name: str
    monolithic: bool = False
    padding: Padding = _PLAIN
    rearranged: bool = False


TRITON = "Triton"
_MARLIN = ExpertKernel("Marlin", padding=Padding(128, 256), rearranged=True)
_TRT_LLM = ExpertKernel("FlashInfer TRT-LLM", monolithic=True, padding=Padding(256, 256, bias_bytes=4), rearranged=True)
_ROCM = ExpertKernel("ROCm", padding=Padding(256, 256), rearranged=True)


def expert_kernel(
    release: Release, gpu: GPU, facts: ModelFacts, online: Scheme | None, *, adapters: bool
) -> ExpertKernel:
    """The kernel for the experts of a model (fused_moe/oracle/*.py of 0.19, 0.25, 0.26 and 0.29; quantization/mxfp4.py
    of 0.11 and 0.17). Where kinds of experts differ, that of the first one.

    mxfp4 runs on Marlin up to Ada and on consumer Blackwell, on TRT-LLM on Blackwell servers, and on Hopper on Triton
    for gpt-oss without adapters, else on Marlin. On Blackwell servers TRT-LLM also runs fp8 and nvfp4 experts, and
    unquantized ones since 0.21 (not in 0.19, in 0.25).
    """
    experts = _first(facts)
    scheme = None if experts is None else experts.scheme or (online if experts.quantizable else None)
    server = gpu.vendor == "nvidia" and major(gpu) == 10
    if is_mxfp4(scheme):
        if gpu.vendor == "amd":
            return _ROCM
        if server:
            return _TRT_LLM
        if major(gpu) == 9 and facts.architecture == "GptOssForCausalLM" and not adapters:
            return ExpertKernel("OpenAI Triton", monolithic=True, padding=_triton_padding(release), rearranged=True)
        return _MARLIN
    if server and scheme is not None and scheme.floating and not scheme.weight_only:
        return ExpertKernel(_TRT_LLM.name, monolithic=True, rearranged=True)
    if server and scheme is None and vllm_rules.TRT_LLM_RUNS_UNQUANTIZED_EXPERTS.holds(release):
        return ExpertKernel(_TRT_LLM.name, monolithic=True, rearranged=True)
    if scheme is not None and scheme.weight_only:
        return ExpertKernel(_MARLIN.name, rearranged=True)
    return ExpertKernel(TRITON)


def _triton_padding(release: Release) -> Padding:
    """mxfp4 on Hopper (triton_kernels layout_details/hopper_value.py and hopper_scale.py, read in 0.19 and 0.26).

    Values are padded to 64 inputs and 16 outputs, from 0.17 to 0.21 to 128 and 64; scales to 64 inputs and 256 outputs
    (8 warps). The scales as loaded stay allocated until 0.24 (oracle/mxfp4.py deletes them since 0.25). Biases become
    float32. gpt-oss-120b on one H100: 64.38 GiB with 0.11, 61.29 with 0.25.
    """
    inputs, outputs = (128, 64) if vllm_rules.MXFP4_VALUES_ARE_PADDED_MORE.holds(release) else (64, 16)
    return Padding(
        intermediate=64,
        value_inputs=inputs,
        value_outputs=outputs,
        scale_inputs=64,
        scale_outputs=256,
        first_scales=vllm_rules.MXFP4_SCALES_STAY.holds(release),
        bias_bytes=4,
    )


def _first(facts: ModelFacts) -> Experts | None:
    return next((experts for layer in (*facts.layers, *facts.shared) for experts in layer.experts), None)
