"""The revisions of a service as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.model.kube.revisions import Revision

_HEAD = ("REVISION", "WHEN", "WHO", "CHANGE", "OUTCOME")


def history_table(revisions: Sequence[Revision]) -> str:
    """Revisions, the oldest first, as a table that ends in a newline; or a line if there are none."""
    if not revisions:
        return "no revisions\n"
    table = [_HEAD, *((str(one.number), one.when, one.who, one.change, one.outcome) for one in revisions)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEAD))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)
    return "\n".join(lines) + "\n"
