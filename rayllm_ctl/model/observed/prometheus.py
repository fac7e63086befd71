"""Metrics in the text form of Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def series(text: str, names: Iterable[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name, labels and value of the series with one of `names` that have labels.

    A pod of Ray exports thousands of lines, of which a few count: they are searched for.
    """
    text = f"\n{text}\n"
    for name in names:
        start = f"\n{name}{{"
        place = text.find(start)
        while place >= 0:
            labels, _, value = text[place + len(start) : text.find("\n", place + 1)].rpartition("} ")
            with suppress(ValueError, IndexError):
                yield name, dict(_LABEL.findall(labels)), float(value.split()[0])
            place = text.find(start, place + 1)
