"""How long a replica takes until it answers, and the limits that probes and waits take from it.

Every rate is a band because disks, networks and compile caches differ more than models do. Evidence (public logs, vLLM
0.9 to 0.32; "init engine" is vLLM's own word for profile, compile, KV cache and graph capture):

  load     Llama-3-8B on A100 22 s cold and 5.4 s from the page cache; 55 GiB FP8 MoE 20 s; Qwen3-235B-FP8 at TP 4 48 s;
           GLM-5.3-Flash (306 GiB) at TP 8 226 s; 8 GiB from a slow disk 27 s (vllm#44106): 0.3 to 4.9 GB/s per node.
  init     Llama-3-8B 39 s (vllm#11005); 1.5B 91 s cold and 48 s with a compile cache (runai-model-streamer#67);
           Llama-3.1-8B on A100, eager, 2 s (ilseokoh/vllm-gce); FP8 MoE 71 s; 9B hybrid on L40S 212 s; 235B MoE at
           TP 4 230 s; GLM-5.3-Flash at TP 8 468 s.
  process  25 s between container start and the first line of the engine (vllm#20264).
"""

from __future__ import annotations

import math

from rayllm_ctl.model.plan.plan import Band, StartupPlan

_LOAD_RATE = Band(0.3e9, 1.5e9, 4.0e9)
"""Bytes/s at which one node reads a checkpoint into its GPUs: slow network disk, local NVMe, page cache."""

_DOWNLOAD_RATE = Band(0.1e9, 0.5e9, 1.5e9)
"""Bytes/s from a hub to one node: an assumption (1, 5 and 15 Gbit/s links), not a measurement."""

_PROCESS = Band(15.0, 30.0, 60.0)
"""Seconds of imports, Ray actors and API start around the engine."""

_INIT_DENSE = Band(30.0, 60.0, 110.0)
_INIT_COMPLEX = Band(60.0, 200.0, 480.0)
"""Seconds of profile, compile and graph capture; MoE and hybrid models warm up many more kernels."""

_INIT_EAGER = Band(1.5, 10.0, 40.0)
_INIT_CPU_EAGER = Band(30.0, 60.0, 120.0)
_INIT_CPU_COMPILED = Band(90.0, 180.0, 360.0)
"""vLLM on 2 CPU cores, measured to /health: 81 s eager, 209 s compiled, process start included."""

_IMAGE_PULL = 600
"""Seconds granted for pulling an image of about 10 GB to a node that has never seen it (an assumption)."""

_SHORTEST_WAIT = 900


def _divide(size: float, rate: Band) -> Band:
    return Band(size / rate.high, size / rate.typical, size / rate.low)


def _add(*bands: Band) -> Band:
    return Band(sum(b.low for b in bands), sum(b.typical for b in bands), sum(b.high for b in bands))


def startup(
    checkpoint_bytes: float,
    *,
    nodes: int = 1,
    download: bool,
    complex_model: bool,
    eager: bool,
    cpu: bool = False,
    compiled: bool = True,
) -> StartupPlan:
    """Start-up of one replica.

    checkpoint_bytes: size of all weights; nodes: how many nodes read it (each reads its share); download: the weights
    come from a hub first; complex_model: MoE or hybrid; eager: no compilation and no graphs; compiled: False for an
    engine that does not prepare itself at all (Transformers).
    """
    share = checkpoint_bytes / nodes
    # Every node of a replica downloads the whole repository: vLLM picks the shards after that.
    fetch = _divide(checkpoint_bytes, _DOWNLOAD_RATE) if download else Band(0.0, 0.0, 0.0)
    load = _divide(share, _LOAD_RATE)
    if not compiled:
        engine = Band(0.0, 0.0, 0.0)
    elif cpu:
        engine = _INIT_CPU_EAGER if eager else _INIT_CPU_COMPILED
    elif eager:
        engine = _INIT_EAGER
    else:
        engine = _INIT_COMPLEX if complex_model else _INIT_DENSE
    total = _add(_PROCESS, fetch, load, engine)
    wait = max(_SHORTEST_WAIT, 60 * math.ceil((1.5 * total.high + _IMAGE_PULL) / 60))
    return StartupPlan(fetch, load, engine, total, wait)
