"""Where the weights come from, as text: a line, and the table of all ways."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.console.plan.figures import minutes
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.plan import Plan, StoragePlan

_WORTH_A_LINE = 10 * GIB
"""Weights of that size take long enough to be mentioned without a better way."""

_SOURCES = {
    "hub-cache": "downloaded once into the cache on the claim, read from there by each pod",
    "claim": "read from the claim by each pod",
    "claim-on-disk": "read from the claim by each pod",
    "bucket-copy": "copied from the bucket to the disk of each pod",
    "bucket-stream": "streamed from the bucket by each pod",
    "image": "pulled as an image once per node",
}


def storage_lines(plan: Plan, wide: bool) -> Iterator[str]:
    """The way of the weights in a line; wide: with all of them."""
    storage = plan.storage
    if storage is None:
        return
    line = storage_line(plan)
    if wide and storage.ways:
        yield line or f"{_gib(storage.files_bytes)} from the Hub at each start of a pod"
        yield from _table(storage)
    elif line:
        yield f"{line} · other ways: -o wide" if storage.ways else line


def storage_line(plan: Plan) -> str:
    """The way that was chosen, or a better one; empty for weights that are small, or in a folder of the pods."""
    storage, start = plan.storage, plan.startup
    if storage is None or start is None or storage.way == "path":
        return ""
    size = _gib(storage.files_bytes)
    if storage.way == "hub":
        if storage.recommended != "hub":
            return storage.reason
        return f"{size} from the Hub at each start of a pod" if storage.files_bytes >= _WORTH_A_LINE else ""
    job = start.model_download
    once = f"downloaded once by a Job in about {minutes(job.typical)}, " if job is not None else ""
    return f"{size} {once}{_SOURCES[storage.way]}"


def _table(storage: StoragePlan) -> Iterator[str]:
    """A row for each way: marked are the chosen and the recommended one."""
    rows = [("", "first", "later", "Hub", "storage", "requires")]
    for one in storage.ways:
        mark = "* " if one.way == storage.way else "+ " if one.way == storage.recommended else "  "
        cells = (_bytes(one.downloaded_bytes), _bytes(one.read_bytes), one.needs)
        rows.append((mark + one.way, minutes(one.first.typical), minutes(one.further.typical), *cells))
    warm = minutes(storage.page_cache.typical)
    rows.append(("  files in memory", "", warm, "-", "-", "restart on the same node"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    count = f"{storage.replicas:,} replica{'' if storage.replicas == 1 else 's'}"
    yield f"time to the first answer, and bytes read by {count} (* chosen, + recommended)"
    for name, *figures, needs in rows:
        shown = (f"{cell:>{width}}" for cell, width in zip(figures, widths[1:], strict=True))
        yield f"{name:<{widths[0]}}  {'  '.join(shown)}  {needs}"


def _bytes(size: int) -> str:
    return _gib(size) if size else "-"


def _gib(size: float) -> str:
    return f"{size / GIB:,.0f} GiB" if size >= 10 * GIB else f"{size / GIB:,.1f} GiB"
