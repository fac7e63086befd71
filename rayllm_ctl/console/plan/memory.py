"""Use of a GPU's memory, as a bar with its legend, or in one line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rayllm_ctl.console.rows import LABEL, WIDTH, dimmed
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.plan import MemoryPlan

_BAR = 64
_TOGETHER = "\xa0"
_SHADES = {"weights": "█", "activations": "▓", "graphs": "▒", "non-torch": "░", "KV cache": "▚", "left": "·"}


def memory_lines(memory: MemoryPlan, width: int = WIDTH, style: Printer | None = None) -> Iterator[str]:
    """width: columns of the display. style: that of the dimmed label."""
    parts = memory_parts(memory)
    columns = min(_BAR, width - WIDTH + _BAR)
    total = sum(parts.values())
    bar, filled, edge = "", 0.0, 0
    for name, size in parts.items():
        filled += size
        cells = round(columns * filled / total) - edge
        edge += cells
        bar += _SHADES[name] * cells
    left = f", {gib(parts['left'])} left" if parts["left"] else ", insufficient"
    yield f"{dimmed('per GPU', style)}{bar} {gib(memory.total_bytes)} GiB{left}"
    # A shade stays beside its name.
    legend = [f"{_SHADES[name]} {name} {gib(size)}".replace(" ", _TOGETHER) for name, size in parts.items()][:-1]
    yield from (line.replace(_TOGETHER, " ") for line in _wrapped("  ".join(legend), width))
    low, high = max(0.0, memory.kv_cache_bytes.low), max(0.0, memory.kv_cache_bytes.high)
    held = f"KV cache between {gib(low)} and {gib(high)} GiB" if high else "no memory is left for a KV cache"
    yield from _wrapped(f"{held}; one request at full length needs {memory.kv_needed_bytes / GIB:.2f} GiB", width)


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * (2 + LABEL)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def memory_summary(memory: MemoryPlan) -> str:
    sizes = memory_parts(memory)
    kv = memory.kv_cache_bytes
    rest = sizes["activations"] + sizes["graphs"] + sizes["non-torch"]
    return (
        f"weights {gib(sizes['weights'])} · graphs, activations {gib(rest)} · "
        f"KV cache {gib(kv.typical)} ({gib(kv.low)}–{gib(kv.high)}) · left {gib(sizes['left'])}"
    )


def memory_parts(memory: MemoryPlan) -> dict[str, float]:
    """Bytes of each part of the fullest GPU; `left` is 0 if it is too small."""
    kv = max(0.0, memory.kv_cache_bytes.typical)
    used = memory.weights_bytes + memory.activation_bytes + memory.cuda_graph_bytes + memory.non_torch_bytes + kv
    return {
        "weights": memory.weights_bytes,
        "activations": memory.activation_bytes,
        "graphs": memory.cuda_graph_bytes,
        "non-torch": memory.non_torch_bytes,
        "KV cache": kv,
        "left": max(0.0, memory.total_bytes - used),
    }
