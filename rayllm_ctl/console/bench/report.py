"""A load test as one HTML file: figures and plots, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from rayllm_ctl.console.bench.plots import Plot

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 1rem auto; padding: 0 1rem; color: #111 }
pre { overflow-x: auto; background: #f4f4f4; padding: .8rem; font-size: 13px; line-height: 1.35 }
svg { width: 100%; height: auto } figure { margin: 1.5rem 0 } h1 { font-size: 1.4rem }
"""


def html(title: str, text: Sequence[str], plots: Sequence[Plot]) -> str:
    """The page. text: the lines that the terminal would show. plots: with images as SVG."""
    figures = "\n".join(
        f'<figure role="img" aria-label="{escape(plot.title)}">{_inline(plot.images["svg"].decode(), number)}</figure>'
        for number, plot in enumerate(plots)
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n<pre>{escape(chr(10).join(text))}</pre>\n"
        f"{figures}\n</body></html>\n"
    )


def _inline(svg: str, number: int) -> str:
    """An SVG inside a page: without its prologue, and with ids that no other has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="f{number}-', svg)
    return re.sub(r'(href="|url\()#', rf"\1#f{number}-", svg)
