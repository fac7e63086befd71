"""Lines on the terminal that are redrawn in place, with others above them. The only module that draws with rich."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rayllm_ctl.console.style import Printer

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text


class Redrawn:
    """The lines of `render`, redrawn twice a second and at each `draw`; they stay on the screen at the end. wrap: lines
    that are too long continue on the next one, and are not cut."""

    def __init__(self, style: Printer, render: Callable[[], str], wrap: bool = False) -> None:
        self._style, self._wrap = style, wrap
        self._text = render
        self._live: Live | None = None

    def draw(self) -> None:
        """Begin to draw, or draw again at once."""
        if self._live is not None:
            self._live.refresh()
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._style.stream, force_terminal=True, highlight=False, soft_wrap=False)
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=2, transient=False)
        self._live.start(refresh=True)

    def print(self, line: str) -> None:
        """Print a line above, or at the end if nothing is drawn."""
        if self._live is None:
            self._style.line(line)
        else:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(line))

    def stop(self) -> None:
        """Leave the drawn lines on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> Text:
        from rich.text import Text

        return Text.from_ansi(self._text(), no_wrap=not self._wrap, overflow="fold" if self._wrap else "ellipsis")
