"""One real node: a process that holds mount, network and PID namespaces; in them its components.

containerd runs the pods, the kubelet starts them, kube-proxy carries services, kube-router enforces NetworkPolicies.

When the holder dies the kernel ends everything in the node, and with it the node's mounts and rules.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster import build, capacity, cgroups, host, layout, modules, network, nodeconfig, pki, processes, store
from e2e.cluster.capacity import Claim
from e2e.cluster.errors import RigError
from e2e.cluster.layout import Node, Run
from e2e.cluster.processes import Process
from e2e.cluster.shell import run as run_program
from e2e.cluster.state import Journal

_STARTING_SECONDS: Final = 60.0
# Where containerd, CNI and the kubelet write by fixed paths: the node has its own instead of the host's.
MOUNT_POINTS: Final = ("/run", "/var/log", "/var/lib/cni", "/var/lib/kubelet")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")


@dataclass(frozen=True)
class Prepared:
    """A node whose containerd runs: `enter` is the command line that runs another one inside it."""

    node: Node
    claim: Claim
    enter: Sequence[str]


def prepare(node: Node, others: Sequence[Node], claim: Claim, template: Path, run: Run, journal: Journal) -> Prepared:
    """Make the node's namespaces, network and image store, and start its containerd."""
    cgroups.create(node.cgroup)
    node.directory.mkdir(parents=True)
    holder = _hold(node, run, journal)
    prepared = Prepared(node, claim, ("nsenter", "-t", str(holder), "--mount", "--net", "--pid", "--"))
    network.connect(node, holder, others)
    _write_configuration(node, run)
    mounts = store.link(template, node.directory / "store")
    mounts += capacity.disguise(claim, node.directory / "disguise")
    if _RESOLV_CONF.exists():
        mounts.append((node.directory / "resolv.conf", _RESOLV_CONF.resolve()))
    run_program([*prepared.enter, "sh", "-ec", _mount_script(mounts)])
    containerd = ["containerd", "--config", str(node.directory / "containerd.toml")]
    process = _component("containerd", containerd, prepared, run, journal)
    processes.wait(node.socket.exists, f"containerd of {node.name}", _STARTING_SECONDS, [process])
    return prepared


def join(prepared: Prepared, run: Run, journal: Journal) -> None:
    """Start the kubelet and kube-proxy, which make the node a part of the cluster; the API server must be ready."""
    node = prepared.node
    kubelet = [str(build.program(modules.KUBERNETES, "kubelet")), *_kubelet_flags(node, prepared.claim)]
    _component("kubelet", kubelet, prepared, run, journal)
    proxy = [str(build.program(modules.KUBERNETES, "kube-proxy")), f"--config={node.directory / 'kube-proxy.json'}"]
    _component("kube-proxy", proxy, prepared, run, journal)


def enforce_policies(prepared: Prepared, run: Run, journal: Journal) -> None:
    """Start kube-router, which ends at once where its node is not registered yet."""
    router = [str(build.program(modules.KUBE_ROUTER, "kube-router")), *nodeconfig.kube_router(prepared.node)]
    _component("kube-router", router, prepared, run, journal)


def _hold(node: Node, run: Run, journal: Journal) -> int:
    """Start the holder; the number, on the host, of its child that is process 1 of the node."""
    pause = build.program(modules.KUBERNETES, "pause")
    argv = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", str(pause)]
    name = f"{node.name}-holder"
    holder = journal.add(processes.start(name, argv, run.log(name)))
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    deadline = time.monotonic() + _STARTING_SECONDS
    while time.monotonic() < deadline:
        child = children.read_text().split() if holder.alive else []
        # The child counts once it has become the waiting program: by then all its namespaces and its /proc are made.
        if child and Path(f"/proc/{child[0]}/exe").resolve() == pause:
            return int(child[0])
        time.sleep(0.02)
    raise RigError(f"the namespaces of {node.name} cannot be made:\n{processes.tail(run.log(name))}")


def _mount_script(mounts: Sequence[tuple[Path, Path]]) -> str:
    lines = ["mount --make-rshared /", *(f"mount -t tmpfs -o mode=0755 tmpfs '{point}'" for point in MOUNT_POINTS)]
    # Mounts that containers make in volumes, and their network namespaces, must be seen by the kubelet and by runc.
    lines += ["mkdir -p /run/lock /run/netns /run/containerd", "mount --bind /run/netns /run/netns"]
    lines += ["mount --make-rshared /run/netns", "mount --make-rshared /var/lib/kubelet"]
    for source, target in mounts:
        if source.is_file():
            # /etc/resolv.conf may be a link into the /run that is hidden by now.
            lines.append(f"mkdir -p '{target.parent}'; [ -e '{target}' ] || touch '{target}'")
        lines += [f"mount --bind '{source}' '{target}'", f"mount -o remount,bind,ro '{target}'"]
    return "\n".join(lines)


def _write_configuration(node: Node, run: Run) -> None:
    cni_directory = node.directory / "cni"
    cni_directory.mkdir()
    plugins = host.cni_directory()
    if plugins is None:
        raise RigError("the CNI plugins are not installed", "apt-get install containernetworking-plugins")
    # Nothing listens there: look-ups beyond the cluster are refused at once, so that an image that does not exist is an
    # error within a second and not after a time-out.
    (node.directory / "resolv.conf").write_text(f"nameserver {layout.HOST_ADDRESS}\noptions attempts:1\n")
    containerd = nodeconfig.containerd(node.directory / "store", "/run/containerd", node.socket, plugins, cni_directory)
    (node.directory / "containerd.toml").write_text(containerd)
    (cni_directory / "10-rayllm.conflist").write_text(json.dumps(nodeconfig.cni(node)))
    pki.write_kubeconfig(run.pki, node.name, node.directory / "kubelet.kubeconfig")
    for client in ("kube-proxy", "kube-router"):
        pki.write_kubeconfig(run.pki, client, node.directory / f"{client}.kubeconfig")
    (node.directory / "kubelet.json").write_text(json.dumps(nodeconfig.kubelet(node, run)))
    proxy = nodeconfig.kube_proxy(node, node.directory / "kube-proxy.kubeconfig")
    (node.directory / "kube-proxy.json").write_text(json.dumps(proxy))


def _kubelet_flags(node: Node, claim: Claim) -> list[str]:
    labels = {layout.REAL_NODE_LABEL: "true", **claim.labels}
    return [
        f"--config={node.directory / 'kubelet.json'}",
        f"--kubeconfig={node.directory / 'kubelet.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--root-dir={node.directory / 'kubelet'}",
        f"--node-labels={','.join(f'{name}={value}' for name, value in labels.items())}",
    ]


def _component(name: str, argv: Sequence[str], prepared: Prepared, run: Run, journal: Journal) -> Process:
    full_name = f"{prepared.node.name}-{name}"
    return journal.add(processes.start(full_name, [*prepared.enter, *argv], run.log(full_name)))
