"""Simulated."""

from e2e.cluster.api import Api
from e2e.cluster.layout import Run
from e2e.cluster.state import Journal
from collections.abc import Sequence


def start(shapes: Sequence[str], api: Api, run: Run, journal: Journal) -> None:
    raise NotImplementedError
