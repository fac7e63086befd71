"""etcd, the API server, the controller manager and the scheduler, each a process of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.cluster import build, layout, modules, pki, processes
from e2e.cluster.api import Api
from e2e.cluster.layout import Run
from e2e.cluster.processes import Process
from e2e.cluster.state import Journal

_ETCD_CLIENTS: Final = "http://127.0.0.1:23790"
_ETCD_PEERS: Final = "http://127.0.0.1:23800"
_ETCD_QUOTA_BYTES: Final = 2 * 1024**3
_READY_SECONDS: Final = 120.0

# Without a cloud there are no addresses, routes or balancers to hand out; nodes get their pod ranges from us.
_CONTROLLERS: Final = (
    "*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller"
)


def start(run: Run, journal: Journal) -> Api:
    """Start the control plane and wait until the API server is ready; RigError with a log's end if it never is."""
    etcd = _start("etcd", _etcd(run), run, journal)
    server = _start("kube-apiserver", _api_server(run), run, journal)
    api = Api(run.pki)
    processes.wait(api.ready, "the API server", _READY_SECONDS, [etcd, server])
    for name, arguments in (("kube-controller-manager", _controller_manager(run)), ("kube-scheduler", [])):
        kubeconfig = run.directory / f"{name}.kubeconfig"
        pki.write_kubeconfig(run.pki, name, kubeconfig)
        _start(name, [*_component(kubeconfig), *arguments], run, journal)
    return api


def _start(name: str, arguments: list[str], run: Run, journal: Journal) -> Process:
    argv = [str(build.program(modules.KUBERNETES, name)), *arguments]
    return journal.add(processes.start(name, argv, run.log(name)))


def _etcd(run: Run) -> list[str]:
    return [
        "--name=rayllm-e2e",
        f"--data-dir={run.directory / 'etcd'}",
        "--unsafe-no-fsync",  # The data does not outlive the cluster, so its durability is worth nothing.
        f"--listen-client-urls={_ETCD_CLIENTS}",
        f"--advertise-client-urls={_ETCD_CLIENTS}",
        f"--listen-peer-urls={_ETCD_PEERS}",
        f"--initial-advertise-peer-urls={_ETCD_PEERS}",
        f"--initial-cluster=rayllm-e2e={_ETCD_PEERS}",
        f"--quota-backend-bytes={_ETCD_QUOTA_BYTES}",
        "--log-level=warn",
    ]


def _api_server(run: Run) -> list[str]:
    certificates = run.pki
    return [
        # On loopback the endpoints of the `kubernetes` service are refused, and pods could not reach the server.
        f"--advertise-address={layout.HOST_ADDRESS}",
        f"--bind-address={layout.HOST_ADDRESS}",
        "--secure-port=6443",
        f"--etcd-servers={_ETCD_CLIENTS}",
        f"--service-cluster-ip-range={layout.SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,PodNodeSelector,PodTolerationRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={certificates / 'ca.crt'}",
        f"--tls-cert-file={certificates / 'apiserver.crt'}",
        f"--tls-private-key-file={certificates / 'apiserver.key'}",
        f"--kubelet-client-certificate={certificates / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={certificates / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer=https://kubernetes.default.svc.{layout.CLUSTER_DOMAIN}",
        f"--service-account-key-file={certificates / 'service-account.pub'}",
        f"--service-account-signing-key-file={certificates / 'service-account.key'}",
        # The aggregation layer, so that a metrics server or another extension can be installed.
        f"--requestheader-client-ca-file={certificates / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={certificates / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={certificates / 'front-proxy-client.key'}",
        "--enable-aggregator-routing=true",
        "--profiling=false",
    ]


def _component(kubeconfig: Path) -> list[str]:
    roles = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    fixed = ["--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"]
    return [*(f"--{role}={kubeconfig}" for role in roles), *fixed]


def _controller_manager(run: Run) -> list[str]:
    return [
        f"--controllers={_CONTROLLERS}",
        f"--service-account-private-key-file={run.pki / 'service-account.key'}",
        f"--root-ca-file={run.pki / 'ca.crt'}",
        "--use-service-account-credentials=true",
        # At the default of 20 a second the controllers wait for one another's start for five seconds.
        "--kube-api-qps=200",
        "--kube-api-burst=300",
        # On two busy cores a healthy kubelet can be late by more than the default of 50 s, and would lose its pods.
        "--node-monitor-grace-period=60s",
    ]
