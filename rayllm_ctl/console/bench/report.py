"""A page of HTML: what was measured, tables and plots, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from rayllm_ctl.console.bench.plots import Plot
from rayllm_ctl.frozen import dataclass

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1rem auto; padding: 0 1rem; color: #111;
  background: #fff }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 }
dt { color: #555 } dd { margin: 0; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .4rem; text-align: right; vertical-align: bottom }
th { font-weight: 600 } td { white-space: nowrap } td.text, th.text { text-align: left; white-space: normal }
thead tr:last-child th, th[rowspan] { border-bottom: 2px solid #111 } tbody td { border-bottom: 1px solid #ccc }
th[colspan] { border-bottom: 1px solid #999; text-align: center }
ul { padding-left: 1.2rem; overflow-wrap: anywhere }
svg { width: 100%; height: auto } figure { margin: 1.5rem 0 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem }
@media (max-width: 60rem) { table { font-size: 11.5px } th, td { padding: .25rem .15rem } }
@media (max-width: 49rem) {
  dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: .4rem }
  table, tbody, tr, td { display: block; font-size: 15px } thead { display: none }
  tr { border-top: 2px solid #111; padding: .3rem 0; margin-bottom: .6rem }
  tbody td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; text-align: right }
  tbody td:first-child { font-weight: 600 }
  td::before { content: attr(data-label); color: #555; text-align: left }
  tbody td:empty { display: none }
}
@media print { body { max-width: none } figure, tr { break-inside: avoid } }
"""


@dataclass(frozen=True)
class Column:
    """A column of a table. group: what it shares with its neighbours, as p50 and p99 their figure. text: no number."""

    name: str
    group: str = ""
    text: bool = False

    @property
    def label(self) -> str:
        """The name where the column stands alone."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class Table:
    """On a narrow screen each row is a list of its cells with the names of their columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """configuration: rows of label and text. remarks: sentences below the tables."""

    title: str
    configuration: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    remarks: Sequence[str]
    plots: Sequence[Plot]


def html(page: Page) -> str:
    """The page. Its plots have images as SVG."""
    figures = "\n".join(
        f'<figure role="img" aria-label="{escape(plot.title)}">{_inline(plot.images["svg"].decode(), number)}</figure>'
        for number, plot in enumerate(page.plots)
    )
    rows = "\n".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in page.configuration)
    remarks = "\n".join(f"<li>{escape(text)}</li>" for text in page.remarks)
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(page.title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(page.title)}</h1>\n<dl>\n{rows}\n</dl>",
            *map(_table, page.tables),
            *((f"<h2>Remarks</h2>\n<ul>\n{remarks}\n</ul>",) if remarks else ()),
            f'<h2>Plots</h2>\n<div class="plots">\n{figures}\n</div>\n</body></html>\n',
        )
    )


def _table(table: Table) -> str:
    body = "\n".join(
        "<tr>" + "".join(_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return (
        f"<h2>{escape(table.title)}</h2>\n<table><thead>\n{_head(table.columns)}\n</thead><tbody>\n{body}\n"
        "</tbody></table>"
    )


def _cell(column: Column, text: str) -> str:
    kind = ' class="text"' if column.text else ""
    return f'<td{kind} data-label="{escape(column.label)}">{escape(text)}</td>'


def _head(columns: Sequence[Column]) -> str:
    """A row, or two where columns have groups."""
    if not any(column.group for column in columns):
        return f"<tr>{''.join(map(_name, columns))}</tr>"
    above: list[str] = []
    below: list[str] = []
    for group, members in groupby(columns, lambda column: column.group):
        some = list(members)
        if group:
            above.append(f'<th scope="colgroup" colspan="{len(some)}">{escape(group)}</th>')
            below += map(_name, some)
        else:
            above += (_name(column, rows=2) for column in some)
    return f"<tr>{''.join(above)}</tr>\n<tr>{''.join(below)}</tr>"


def _name(column: Column, rows: int = 1) -> str:
    kind = ' class="text"' if column.text else ""
    span = f' rowspan="{rows}"' if rows > 1 else ""
    return f'<th scope="col"{kind}{span}>{escape(column.name)}</th>'


def _inline(svg: str, number: int) -> str:
    """An SVG inside a page: without its prologue, and with ids that no other has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="f{number}-', svg)
    return re.sub(r'(href="|url\()#', rf"\1#f{number}-", svg)
