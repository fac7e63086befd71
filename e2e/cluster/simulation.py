"""KWOK and the stand-in for the Ray dashboard: the two processes that make nodes without machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e import simulate
from e2e.cluster import build, layout, modules, network, processes
from e2e.cluster.api import Api
from e2e.cluster.layout import Run
from e2e.cluster.state import Journal
from e2e.simulate import kwok

_REPOSITORY: Final = Path(__file__).parents[2]


def start(shapes: Sequence[str], api: Api, run: Run, journal: Journal) -> None:
    """Make the simulated nodes of `shapes`, and start what manages them and what answers for their pods."""
    nodes = [node for shape in shapes for node in simulate.parse(shape)]
    config = run.directory / "kwok.yaml"
    config.write_text(simulate.kwok_config())
    network.make_simulated_range()
    arguments = simulate.kwok_arguments(
        kubeconfig=run.kubeconfig,
        config=config,
        node_address=layout.HOST_ADDRESS,
        pod_range=layout.SIMULATED_POD_RANGE,
    )
    program = str(build.program(modules.KWOK, "kwok"))
    journal.add(processes.start("kwok", [program, *arguments], run.log("kwok"), env=kwok.ENVIRONMENT))
    dashboard = [sys.executable, "-m", "e2e.simulate.dashboard", "--kubeconfig", str(run.kubeconfig)]
    log = run.log("dashboard")
    journal.add(processes.start("dashboard", dashboard, log, env={"PYTHONUNBUFFERED": "1"}, cwd=_REPOSITORY))
    for manifest in simulate.node_manifests(nodes):
        api.apply(manifest)
