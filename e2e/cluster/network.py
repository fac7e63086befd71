"""One bridge on the host, a cable to each node, and routes by which host, nodes and pods reach each other.

Nothing leads out of the machine: the host forwards nothing and gets no firewall rule. All links and routes hang on the
bridge and on the nodes' network namespaces, so they vanish with these.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from e2e.cluster.layout import BRIDGE, HOST_ADDRESS, SERVICE_RANGE, SIMULATED_POD_RANGE, Node
from e2e.cluster.shell import run


def make_bridge(owner: str) -> None:
    """Make the host's side of the network; `owner` (the run directory) is written on the bridge for a later `down`."""
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("link", "set", BRIDGE, "alias", owner)
    _ip("address", "add", f"{HOST_ADDRESS}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def make_simulated_range() -> None:
    """Make every address of the simulated pods local to the host, so that one process can answer for all of them."""
    _ip("route", "replace", "local", SIMULATED_POD_RANGE, "dev", BRIDGE)


def connect(node: Node, pid: int, others: Sequence[Node]) -> None:
    """Give the network namespace of process `pid` the node's address, and routes to host, services and the `others`.

    What leads elsewhere is unreachable at once: a call to the outside, or an image pull, fails and does not hang.
    """
    _ip("link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("link", "set", node.link, "master", BRIDGE, "up")
    inside = [
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        # A service's address is rewritten to a pod's after the routing decision, which therefore has to succeed.
        f"route add {SERVICE_RANGE} via {HOST_ADDRESS}",
        f"route add {SIMULATED_POD_RANGE} via {HOST_ADDRESS}",
        "route add unreachable default",
        *(f"route add {other.pod_range} via {other.address}" for other in others),
    ]
    run(["nsenter", "-t", str(pid), "--net", "ip", "-batch", "-"], stdin="\n".join(inside))
    # Replies of one pod to another on the same bridge must pass the rules that rewrote the request's address.
    settings = "cd /proc/sys/net; echo 1 > ipv4/ip_forward; echo 1 > bridge/bridge-nf-call-iptables"
    run(["nsenter", "-t", str(pid), "--net", "sh", "-ec", settings])
    _ip("route", "replace", node.pod_range, "via", node.address, "dev", BRIDGE)
    if node.number == 1:
        _ip("route", "replace", SERVICE_RANGE, "via", node.address, "dev", BRIDGE)


def owner() -> str | None:
    """What `make_bridge` wrote on the bridge; None if there is no bridge."""
    found = subprocess.run(["ip", "-json", "link", "show", BRIDGE], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        return None
    return str(json.loads(found.stdout)[0].get("ifalias", ""))


def links() -> list[str]:
    """The cluster's links on the host, cables before the bridge."""
    names = [str(link["ifname"]) for link in json.loads(run(["ip", "-json", "link", "show"]))]
    return [name for name in names if name.startswith("rayllm-n")] + [name for name in names if name == BRIDGE]


def remove() -> None:
    """Remove the bridge, the cables and with them all routes of the cluster on the host."""
    for name in links():
        # A cable goes by itself when the kernel clears its node's namespace, perhaps at this moment.
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    run(["ip", *words])
