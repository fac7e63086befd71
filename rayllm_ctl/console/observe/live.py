"""A tree on the terminal that follows a start, redrawn in place."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rayllm_ctl.console.observe.event_line import format_download, format_event
from rayllm_ctl.console.observe.tree import tree_lines
from rayllm_ctl.console.plan.plan import summary
from rayllm_ctl.console.redrawn import Redrawn
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Downloading, Event, Observed, Planned, Ready
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.health import Health, State, format_queue
from rayllm_ctl.model.observed.model_downloads import DownloadState, ModelDownload

_LABEL = 12
_MARKS = {State.READY: "ok", State.FAILED: "error", State.STUCK: "warning", State.DEGRADED: "warning"}


class LiveTree:
    """Events above, the service's tree below, which stay on the screen at the end."""

    def __init__(self, style: Printer) -> None:
        self._style = style
        self._redrawn = Redrawn(style, self._render)
        self._health: Health | None = None
        self._downloads: dict[str, ModelDownload] = {}
        self._begin = time.monotonic()
        self._elapsed = 0.0
        self._expected = 0.0
        self._name = ""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redrawn.stop()

    def handle(self, event: Event) -> None:
        """Draw `event`: an observation of the service redraws the tree, anything else is a line above it."""
        if isinstance(event, Observed):
            self._draw(event)
            return
        if isinstance(event, Downloading):
            self._draw_download(event)
            return
        if isinstance(event, Ready):
            self._redrawn.stop()
        if isinstance(event, Planned):
            self._expected = event.plan.startup.ready.typical if event.plan.startup else 0.0
            self._name = event.plan.deployment.name if event.plan.deployment else ""
            for number, line in enumerate(summary(event.plan)):
                self._print("step" if number == 0 else "", "plan" if number == 0 else "", line)
            return
        label, text = format_event(event, self._style)
        self._print("ok" if isinstance(event, Ready) else "step", label, text)

    def _draw(self, event: Observed) -> None:
        with self._lock:
            self._health = event.health
            self._begin, self._elapsed = time.monotonic(), event.elapsed
            self._name = self._name or _name(event.health)
        self._redrawn.draw()

    def _draw_download(self, event: Downloading) -> None:
        """Redraw the line of a download; a complete one is printed above."""
        complete = event.download.state is DownloadState.COMPLETE
        with self._lock:
            if complete:
                self._downloads.pop(event.download.job, None)
            else:
                self._downloads[event.download.job] = event.download
        if complete:
            self._print("ok", *format_event(event, self._style))
        self._redrawn.draw()

    def _render(self) -> str:
        with self._lock:
            health, elapsed = self._health, self._elapsed + time.monotonic() - self._begin
            downloads = list(self._downloads.values())
        if health is None:
            mark = self._style.symbol("busy")
            return "\n".join(f"{mark} {'download':<{_LABEL}}{format_download(one)}" for one in downloads)
        tree = [f"{'':<{_LABEL + 2}}{line}" for line in tree_lines(health, self._style)]
        queue = [f"{'':<{_LABEL + 2}}{format_queue(health.queue)}"] if health.queue else []
        return "\n".join([self._headline(health, elapsed), *tree, *queue])

    def _headline(self, health: Health, elapsed: float) -> str:
        mark = self._style.symbol(_MARKS.get(health.state, "busy"))
        starting = self._expected and health.state is State.PROGRESSING
        took = format_duration(elapsed) + (f" of ~{format_duration(self._expected)}" if starting else "")
        return f"{mark} {health.state.value.lower():<{_LABEL}}{self._name}  {took}  {health.message}"

    def _print(self, symbol: str, label: str, text: str) -> None:
        mark = self._style.symbol(symbol) if symbol else " "
        self._redrawn.print(f"{mark} {label:<{_LABEL}}{text}".rstrip())


def _name(health: Health) -> str:
    endpoint = next((node.name for node in health.tree if node.kind == "endpoint"), "")
    return kuberay.served_by(endpoint)
