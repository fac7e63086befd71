"""A tree on the terminal that follows a start, redrawn in place. The only module that draws with rich."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rayllm_ctl.console.eventline import format_event
from rayllm_ctl.console.style import Printer
from rayllm_ctl.console.tree import tree_lines
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.events import Applied, Event, Observed, Planned, Ready
from rayllm_ctl.model.health import Health, State
from rayllm_ctl.model.quantities import format_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_LABEL = 12
_MARKS = {State.READY: "ok", State.FAILED: "error", State.STUCK: "warning", State.DEGRADED: "warning"}


class LiveTree:
    """Events above, the service's tree below; what has been drawn stays when it ends."""

    def __init__(self, style: Printer) -> None:
        self._style = style
        self._live: Live | None = None
        self._health: Health | None = None
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
        self._stop()

    def handle(self, event: Event) -> None:
        """Draw `event`: a look at the service redraws the tree, anything else is a line above it."""
        if isinstance(event, Observed):
            self._draw(event)
            return
        if isinstance(event, Ready):
            self._stop()
        if isinstance(event, Planned):
            from rayllm_ctl.console.plan import summary

            self._expected = event.plan.startup.total.typical if event.plan.startup else 0.0
            for number, line in enumerate(summary(event.plan)):
                self._print("step" if number == 0 else "", "plan" if number == 0 else "", line)
            return
        if isinstance(event, Applied) and event.kind == "RayService":
            self._name = event.name
        label, text = format_event(event, self._style)
        self._print("ok" if isinstance(event, Ready) else "step", label, text)

    def _draw(self, event: Observed) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            self._health = event.health
            self._begin, self._elapsed = time.monotonic(), event.elapsed
            self._name = self._name or _name(event.health)
        if self._live is None:
            console = Console(file=self._style.stream, force_terminal=True, highlight=False, soft_wrap=False)
            self._live = Live(console=console, get_renderable=self._render, refresh_per_second=2, transient=False)
            self._live.start(refresh=True)
        else:
            self._live.refresh()

    def _render(self) -> Text:
        from rich.text import Text

        with self._lock:
            health, elapsed = self._health, self._elapsed + time.monotonic() - self._begin
            if health is None:
                return Text("")
        tree = [f"{'':<{_LABEL + 2}}{line}" for line in tree_lines(health, self._style)]
        lines = [self._headline(health, elapsed), *tree]
        return Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis")

    def _headline(self, health: Health, elapsed: float) -> str:
        mark = self._style.symbol(_MARKS.get(health.state, "busy"))
        starting = self._expected and health.state is State.PROGRESSING
        took = format_duration(elapsed) + (f" of ~{format_duration(self._expected)}" if starting else "")
        return f"{mark} {health.state.value.lower():<{_LABEL}}{self._name}  {took}  {health.message}"

    def _print(self, symbol: str, label: str, text: str) -> None:
        mark = self._style.symbol(symbol) if symbol else " "
        line = f"{mark} {label:<{_LABEL}}{text}".rstrip()
        if self._live is None:
            self._style.line(line)
        else:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(line))

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _name(health: Health) -> str:
    endpoint = next((node.name for node in health.tree if node.kind == "endpoint"), "")
    return kuberay.served_by(endpoint)
