"""The configuration files of a node's containerd, CNI, kubelet and kube-proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.cluster import layout
from e2e.cluster.layout import Node, Run

PAUSE_IMAGE: Final = f"{layout.IMAGE_PREFIX}/pause:1"

_UNUSED_PLUGINS: Final = (
    "internal.v1.opt",  # It would make /opt/containerd on the host.
    "snapshotter.v1.aufs",
    "snapshotter.v1.btrfs",
    "snapshotter.v1.devmapper",
    "snapshotter.v1.zfs",
)


def containerd(root: Path, state: str, socket: Path, cni_plugins: Path, cni_config: Path) -> str:
    """The TOML for a containerd (1.6 or newer) that has all its files in `root`, `state` and beside `socket`."""
    disabled = ", ".join(f'"io.containerd.{name}"' for name in _UNUSED_PLUGINS)
    return f"""\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [{disabled}]

[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE a negative oom_score_adj cannot be set, and runc would fail for every pod.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{cni_config}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def cni(node: Node) -> Mapping[str, Any]:
    """The CNI configuration: pods of the node hang on one bridge inside it and have addresses of its range."""
    return {
        "cniVersion": "1.0.0",
        "name": "rayllm-e2e",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "hairpinMode": True,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": node.pod_range}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet(node: Node, run: Run) -> Mapping[str, Any]:
    """The kubelet's configuration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(run.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [layout.DNS_ADDRESS],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": str(node.directory / "resolv.conf"),
        "podLogsDir": str(node.directory / "pod-logs"),
        "volumePluginDir": str(node.directory / "volume-plugins"),
        "oomScoreAdj": 0,  # A negative one needs CAP_SYS_RESOURCE.
        # The disk is the machine's own and may be nearly full for reasons that are none of the cluster's.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "200Mi"},
        # Images cannot be pulled again, and their files are the cache's: never collect them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
    }


def kube_proxy(node: Node, kubeconfig: Path) -> Mapping[str, Any]:
    """kube-proxy's configuration: nftables rules inside the node's network namespace."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": layout.POD_RANGE,
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "mode": "nftables",
        "oomScoreAdj": 0,
        # Connection tracking limits are the whole machine's: leave them alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def kube_router(node: Node) -> list[str]:
    """kube-router's flags: of all that it can do, only the firewall that NetworkPolicies ask for."""
    return [
        f"--kubeconfig={node.directory / 'kube-router.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--service-cluster-ip-range={layout.SERVICE_RANGE}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--health-port=0",
    ]
