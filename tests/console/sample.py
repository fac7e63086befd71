"""A service on its way from nothing to ready, as made-up Healths: what the consoles draw in tests."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from io import StringIO

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.health import Cause, Health, State, StatusNode
from rayllm_ctl.model.text.hint import Hint

START = datetime(2026, 3, 1, 10, 40, 0, tzinfo=UTC)
CLUSTER = "qwen3-32b-x7k2p"
HEAD = f"{CLUSTER}-head-4tq9m"
WORKERS = ("qwen3-32b-x7k2p-gpu-worker-9dq4c", "qwen3-32b-x7k2p-gpu-worker-zz7pk")


class Screen(StringIO):
    """A stream that may claim to be a terminal, or to speak nothing but ASCII."""

    def __init__(self, terminal: bool = False, encoding: str = "utf-8") -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


def plain(stream: StringIO | None = None) -> Printer:
    return Printer(stream or Screen(), colors=False, terminal=False)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(kind: str, name: str, state: str, detail: str = "", since: float = 0) -> StatusNode:
    return StatusNode(kind, name, state, detail, since=at(since), cluster=CLUSTER)


def health(
    seconds: float, *parts: StatusNode, state: State = State.PROGRESSING, message: str = "", **changes: object
) -> Health:
    ready = state is State.READY
    endpoint = StatusNode(
        "endpoint", "qwen3-32b-serve-svc", "Ready" if ready else "None", "2 addresses" if ready else ""
    )
    base = Health(state, message, tree=(*parts, endpoint), replicas_wanted=2, since=START, observed_at=at(seconds))
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


PULLING = health(
    20,
    pod("head", HEAD, "Starting", "on cpu-2", 14),
    pod("worker", WORKERS[0], "Pulling", "image example.com/ray-llm:2.60 on gpu-7", 14),
    pod("worker", WORKERS[1], "Pending", "waits for a node", 14),
    message="head starting on cpu-2",
)

STUCK = health(
    380,
    StatusNode(
        "application", "qwen3-32b", "DEPLOYING", "LLMServer:qwen3-32b 0 of 2",
        (StatusNode("replica", "LLMServer:qwen3-32b#r1", "STARTING", "waits for {GPU: 1} × 4", since=at(30)),),
    ),
    pod("head", HEAD, "Running", "on cpu-2", 30),
    pod("worker", WORKERS[0], "Running", "on gpu-7 · 4 GPUs", 60),
    pod("worker", WORKERS[1], "Pending", "waits for a node", 14),
    state=State.STUCK,
    message="no node has 4 free GPUs",
    since=at(14),
    causes=(
        Cause(
            "InsufficientGPU",
            f"pod/{WORKERS[1]}",
            f"pod/{WORKERS[1]} needs 4 nvidia.com/gpu on one node; the most free on one node is 2 (gpu-7), "
            "the largest node has 8: it has to wait until some is freed",
            ("gpu-7: 2 of 8 nvidia.com/gpu free (search/notebook-3 holds 2)", "gpu-9: 0 of 8 nvidia.com/gpu free"),
            (
                Hint("rayllm-ctl plan --model Qwen/Qwen3-32B", "what fits with fewer GPUs"),
                Hint("kubectl get pods -A -o wide"),
            ),
        ),
    ),
)  # fmt: skip

READY = health(
    228,
    StatusNode(
        "application", "qwen3-32b", "RUNNING", "LLMServer:qwen3-32b 2 of 2",
        tuple(
            StatusNode("replica", f"LLMServer:qwen3-32b#r{n}", "RUNNING", f"on {name}")
            for n, name in enumerate(WORKERS)
        ),
    ),
    pod("head", HEAD, "Running", "on cpu-2"),
    pod("worker", WORKERS[0], "Running", "on gpu-7 · 4 GPUs"),
    pod("worker", WORKERS[1], "Running", "on gpu-9 · 4 GPUs"),
    state=State.READY,
    message="serves",
    replicas_running=2,
    replicas_max=4,
    endpoints=2,
)  # fmt: skip
