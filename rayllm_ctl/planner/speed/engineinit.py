"""How long an engine prepares itself after its weights are loaded: profile, compile, KV cache and graph capture.

"init engine" is vLLM's own word. Evidence (public logs, vLLM 0.9 to 0.33):

  miss     Llama-3-8B 39 s (vllm#11005); 1.5B 91 s (runai-model-streamer#67); Llama-3.1-8B on A100, eager, 2 s
           (ilseokoh/vllm-gce); FP8 MoE 71 s; 9B hybrid on L40S 212 s; 235B MoE at TP 4 230 s; GLM-5.3-Flash at TP 8
           468 s.
  hit      1.5B 48 s instead of 91 s (runai-model-streamer#67); 3B 34 s, 17 s of it graph capture, which no cache holds
           (vllm#20264); torch.compile alone 27 s and 3.9 s with a cache for Llama, 26 and 2.0 s for Qwen, 60 and 6.2 s
           for DeepSeek, 62 and 7.8 s for GLM (vllm#37198); Qwen3-32B 68 s and 44 s in all (vllm#32191). Of MoE and
           hybrid models only compilation was measured with a cache: the rest of the band is an assumption.
  profile  With a start-up plan vLLM neither measures memory nor estimates graphs, and still runs the model once
           (v1/worker/gpu_worker.py). No log with and without one was found; the profile runs took 0.9 s
           (club-3090#1011) to 5.5 s (gateway-api-inference-extension#550), so it saves that at most.
  CPU      On two cores to /health 81 s eager and 209 s compiled, process start included. A hit is an assumption: no
           longer than half the time between the two.
"""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Band

_DENSE = Band(30.0, 60.0, 110.0)
_COMPLEX = Band(60.0, 200.0, 480.0)
"""MoE and hybrid models warm up many more kernels."""

_DENSE_HIT = Band(15.0, 35.0, 85.0)
_COMPLEX_HIT = Band(45.0, 145.0, 425.0)

_EAGER = Band(1.5, 10.0, 40.0)
_CPU_EAGER = Band(30.0, 60.0, 120.0)
_CPU_COMPILED = Band(90.0, 180.0, 360.0)
_CPU_HIT = Band(30.0, 90.0, 240.0)

_PROFILE = Band(0.0, 2.0, 5.5)


@dataclass(frozen=True)
class EngineStart:
    """What decides the preparation. complex_model: MoE or hybrid; eager: no compilation and no graphs; prepares: False
    for an engine that does not prepare itself at all (Transformers)."""

    complex_model: bool = False
    eager: bool = False
    cpu: bool = False
    prepares: bool = True


def init_seconds(engine: EngineStart, *, compiled: bool = False, profiled: bool = False) -> Band:
    """compiled: the compile cache has the graphs. profiled: a start-up plan of the same engine was kept."""
    if not engine.prepares:
        return Band(0.0, 0.0, 0.0)
    if engine.cpu:
        # Start-up plans are for GPUs.
        return _CPU_EAGER if engine.eager else _CPU_HIT if compiled else _CPU_COMPILED
    if engine.eager:
        found = _EAGER
    elif compiled:
        found = _COMPLEX_HIT if engine.complex_model else _DENSE_HIT
    else:
        found = _COMPLEX if engine.complex_model else _DENSE
    # The least that is sure at the slow end.
    saved = _PROFILE if profiled else Band(0.0, 0.0, 0.0)
    return Band(max(found.low - saved.high, 0.0), max(found.typical - saved.typical, 0.0), found.high - saved.low)
