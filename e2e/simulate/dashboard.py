"""`python -m e2e.simulate.dashboard --kubeconfig FILE`: Ray in all simulated pods, played by one process.

It listens on the ports of Ray's dashboard (8265), of its agent (52365) and of Serve's proxy (8000) on every address of
this machine, to which the addresses of all simulated pods have been made local. The address that a client connects to
says which pod is meant; the API server says what pod that is. Connections to other addresses of the machine are closed.

What each pod answers is told by PUT to /_simulate on port 8265 of any pod of its cluster: see settings.py.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.simulate.clusters import Clusters
from e2e.simulate.http import Handler, Server
from e2e.simulate.pods import PodTable
from e2e.simulate.ray_api import RayHandler
from e2e.simulate.serve_proxy import ProxyHandler
from e2e.simulate.watch import follow, from_kubeconfig

PORTS: dict[int, type[Handler]] = {8265: RayHandler, 52365: RayHandler, 8000: ProxyHandler}


class RangeServer(Server):
    """Only takes connections to the addresses of simulated pods."""

    def __init__(self, port: int, handler: type[Handler], clusters: Clusters, pods: ipaddress.IPv4Network) -> None:
        super().__init__(("0.0.0.0", port), handler, clusters)
        self._pods = pods

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the base class gives both
        assert isinstance(request, socket.socket)
        return ipaddress.IPv4Address(request.getsockname()[0]) in self._pods


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m e2e.simulate.dashboard", description="Ray in simulated pods.")
    parser.add_argument("--kubeconfig", type=Path, default=os.environ.get("KUBECONFIG"), help="default: $KUBECONFIG")
    parser.add_argument("--pod-range", type=ipaddress.IPv4Network, default="10.66.0.0/16", help="of simulated pods")
    given = parser.parse_args(arguments)
    if not given.kubeconfig:
        parser.error("--kubeconfig is missing, and KUBECONFIG is not set")
    table = PodTable()
    clusters = Clusters(table)
    servers = [RangeServer(port, handler, clusters, given.pod_range) for port, handler in PORTS.items()]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    follow(from_kubeconfig(Path(given.kubeconfig)), table)


if __name__ == "__main__":
    main()
