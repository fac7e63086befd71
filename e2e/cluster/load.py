"""An image that only some tests need, brought into the nodes of the cluster that is up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from e2e.cluster import layout, state
from e2e.cluster.errors import RigError
from e2e.cluster.layout import Node
from e2e.cluster.shell import run
from e2e.images.oci import Image


def load(image: Image) -> None:
    """Bring `image` into every real node that lacks it; its layers are unpacked then. RigError if no cluster is up."""
    current = layout.current_run()
    record = state.load(current.state)
    if record is None:
        raise RigError("no cluster is up", "python -m e2e.cluster up")
    nodes = [current.node(number) for number in range(1, record.options.nodes + 1)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: _load(image, node), nodes))


def _load(image: Image, node: Node) -> None:
    images = ["ctr", "-a", str(node.socket), "-n", "k8s.io", "images"]
    if image.ref not in run([*images, "ls", "-q", f"name=={image.ref}"]).split():
        run([*images, "import", str(image.archive)])
