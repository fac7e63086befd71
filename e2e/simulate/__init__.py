"""Simulated GPU nodes: what the scheduler and the KubeRay operator see of a cluster that nobody here has.

gpus       what the product's command line says of GPUs
shapes     `H100-80GB:8x2`, and the Node objects of it
kwok       what KWOK does to these nodes and their pods, and its command line
dashboard  one process that answers as the Ray dashboard and the Serve proxy of every simulated pod
"""

from e2e.simulate.kwok import kwok_arguments, kwok_config
from e2e.simulate.shapes import SimulatedNodes, node_manifests, parse

__all__ = ["SimulatedNodes", "kwok_arguments", "kwok_config", "node_manifests", "parse"]
