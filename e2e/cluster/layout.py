"""Names, addresses and paths of the local cluster: everything that two modules have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster import cache

BRIDGE: Final = "rayllm0"
HOST_ADDRESS: Final = "10.77.0.1"
NODE_RANGE: Final = "10.77.0.0/24"
POD_RANGE: Final = "10.78.0.0/16"
SERVICE_RANGE: Final = "10.79.0.0/16"
SIMULATED_POD_RANGE: Final = "10.66.0.0/16"

API_SERVER: Final = f"https://{HOST_ADDRESS}:6443"
API_SERVICE_ADDRESS: Final = "10.79.0.1"  # Kubernetes gives its own service the first address of the range.
DNS_ADDRESS: Final = "10.79.0.10"
CLUSTER_DOMAIN: Final = "cluster.local"

CGROUP: Final = "rayllm-e2e"
SYSTEM_CGROUP: Final = f"{CGROUP}/system"
IMPORT_CGROUP: Final = f"{CGROUP}-import"

REAL_NODE_LABEL: Final = "rayllm.local/real"
IMAGE_PREFIX: Final = "rayllm.local"
MAX_NODES: Final = 9  # One digit in the addresses; one machine carries fewer anyway.

# Socket paths end at 107 characters, and the longest name that is appended to the run directory has 46
# (n1/kubelet/pod-resources/kubelet.sock and room for a containerd suffix).
LONGEST_RUN_PATH: Final = 60


@dataclass(frozen=True)
class Node:
    """One real node: its number (from 1) gives its name and its addresses, `directory` holds all its files."""

    number: int
    directory: Path

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def address(self) -> str:
        return f"10.77.0.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        return f"10.78.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The host's end of the cable to the node."""
        return f"rayllm-{self.name}"

    @property
    def api_path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    @property
    def cgroup(self) -> str:
        return f"{CGROUP}/{self.name}"

    @property
    def socket(self) -> Path:
        """Where the node's containerd listens."""
        return self.directory / "containerd.sock"


@dataclass(frozen=True)
class Run:
    """The files of the cluster that runs, on the cache's file system: nodes have links to content, not copies."""

    directory: Path

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def logs(self) -> Path:
        return self.directory / "log"

    def log(self, process: str) -> Path:
        """Where the process of that name writes what it says."""
        return self.logs / f"{process}.log"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.directory / "kubeconfig"

    def node(self, number: int) -> Node:
        return Node(number, self.directory / f"n{number}")


def current_run() -> Run:
    """The one run directory of this cache."""
    return Run(cache.root() / "run")


def failed_logs() -> Path:
    """Where the logs of the last start that failed are kept."""
    return cache.root() / "failed-logs"
