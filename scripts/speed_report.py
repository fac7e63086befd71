"""The chapter on speed of docs/contributing/accuracy.md: planned figures beside public measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rayllm_ctl.planner.speed.coefficients import FITTED
from scripts.fit_speed import left_out
from scripts.measured_speed import FIGURES, Errors, Measured, campaigns, errors, measurements

_UNITS = {"ttftSeconds": (1e3, "{:,.0f}"), "tpotSeconds": (1e3, "{:,.1f}"), "outputTokensPerSecond": (1.0, "{:,.0f}")}


def speed_report() -> Iterator[str]:
    """The lines of the chapter."""
    rows = measurements()
    known = campaigns()
    yield "## Speed"
    yield ""
    yield (
        f"{len(rows)} measurements of {len(known)} campaigns on {len({row.row['gpu'] for row in rows})} kinds of GPU, "
        'by others than this project. "Left out": planned with coefficients that were fitted without the '
        "campaign (`python -m scripts.fit_speed --leave-out`)."
    )
    yield ""
    yield "| figure | rows | median error | 90th percentile | bias | inside the band | left out: median error |"
    yield "|---|---|---|---|---|---|---|"
    held = _coverage(rows)
    apart = errors(left_out(rows, FITTED))
    for name, found in errors(_ratios(rows)).items():
        yield (
            f"| {FIGURES[name]} | {found.rows} | {found.median:.0%} | {found.p90:.0%} | {found.bias:+.0%} "
            f"| {held[name]:.0%} | {apart[name].median:.0%} |"
        )
    yield ""
    yield "Median error and bias, by what decides the speed:"
    yield ""
    yield f"| | {' | '.join(FIGURES.values())} |"
    yield f"|---|{'---|' * len(FIGURES)}"
    for title, chosen in _groups():
        found = errors(_ratios([row for row in rows if chosen(row)]))
        yield f"| {title} | {' | '.join(_cell(found.get(name)) for name in FIGURES)} |"
    refused = [row for row in rows if row.refused]
    yield ""
    yield f"Plans that refuse what ran: {len(refused)} (marked; the speed is that of a shorter context)."
    yield ""
    yield "### Measurements"
    yield ""
    yield "TTFT and TPOT in ms, planned / measured; the load is requests in flight x (prompt + answer) tokens."
    yield ""
    numbers = {name: number for number, name in enumerate(known, 1)}
    yield f"| model | GPUs | vLLM | load | {' | '.join(FIGURES.values())} | campaign |"
    yield f"|---|---|---|---|{'---|' * len(FIGURES)}---|"
    for row in rows:
        yield _row(row, numbers[row.campaign])
    yield ""
    yield "### Campaigns"
    yield ""
    for name, number in numbers.items():
        one = known[name]
        yield f"{number}. {one['title']}: {one['source']}. Doubts: {one['doubts']}."


def _ratios(rows: Iterable[Measured]) -> list[tuple[str, float]]:
    return [ratio for row in rows for ratio in row.ratios(FITTED)]


def _coverage(rows: Iterable[Measured]) -> dict[str, float]:
    """The share of the measured figures that lie inside the band of the plan."""
    found: dict[str, list[bool]] = {}
    for row in rows:
        for name, inside in row.covered():
            found.setdefault(name, []).append(inside)
    return {name: sum(inside) / len(inside) for name, inside in found.items()}


def _groups() -> Sequence[tuple[str, Callable[[Measured], bool]]]:
    return (
        ("dense", lambda row: not row.rate.moe),
        ("MoE", lambda row: row.rate.moe),
        ("one GPU", lambda row: row.rate.tensor * row.rate.pipeline == 1),
        ("TP over NVLink", lambda row: row.rate.tensor > 1 and row.rate.gpu.interconnect == "nvlink"),
        ("TP over PCIe", lambda row: row.rate.over_pcie),
        ("up to 8 in flight", lambda row: row.batch <= 8),
        ("9 to 63", lambda row: 8 < row.batch < 64),
        ("64 and more", lambda row: row.batch >= 64),
        ("vLLM before 0.8", lambda row: row.rate.old_engine),
        ("AMD", lambda row: row.rate.gpu.vendor == "amd"),
    )


def _cell(found: Errors | None) -> str:
    return "-" if found is None else f"{found.median:.0%}, {found.bias:+.0%} ({found.rows})"


def _row(row: Measured, campaign: int) -> str:
    measured, ratios = dict(row.figures()), dict(row.ratios(FITTED))
    given, rate = row.row, row.rate
    layout = f"TP {rate.tensor}" + (f" PP {rate.pipeline}" if rate.pipeline > 1 else "")
    copies = f", {given['replicas']} replicas" if "replicas" in given else ""
    load = f"{given.get('inFlight', 'full')} x ({given['inputTokens']:,} + {given['outputTokens']:,})"
    cells = []
    for name in FIGURES:
        scale, form = _UNITS[name]
        planned = form.format(measured[name] * ratios[name] * scale) if name in measured else ""
        cells.append(f"{planned} / {form.format(measured[name] * scale)}" if name in measured else "-")
    mark = " (refused)" if row.refused else ""
    return (
        f"| {given['model']}{mark} | {rate.tensor * rate.pipeline} × {given['gpu']}, {layout}{copies} "
        f"| {given['vllm'] or 'unknown'} | {load} | {' | '.join(cells)} | {campaign} |"
    )
