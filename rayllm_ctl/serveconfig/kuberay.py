"""What Ray accepts and KubeRay ignores, overrides or breaks: adapted where that is safe, noted or rejected otherwise.

Source: KubeRay 1.6.2, ray-operator/controllers/ray: rayservice_controller.go (updateServeDeployment,
updateHeadPodServeLabel), common/service.go (BuildServeService), common/pod.go (initLivenessAndReadinessProbe); and
Ray 2.60.0, ray/dashboard/modules/serve/serve_head.py (put_all_applications), through which KubeRay sends the file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from rayllm_ctl.model.kube.kuberay import SERVE_PORT
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential, names_a_secret
from rayllm_ctl.model.spec.serve_options import GRPC_PORT, WORKER_PORTS, ServeProxies, port_problem
from rayllm_ctl.model.text.problems import Path, quoted
from rayllm_ctl.serveconfig.placeholders import is_reference
from rayllm_ctl.serveconfig.shapes import Report, as_number, shown

_ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104  what pods have to listen on
_BIGGEST = 2**63
_CODE_VALUES = frozenset({"args", "user_config", "init_args", "init_kwargs", "policy_kwargs", "request_router_kwargs"})
"""Fields with values that the user's code sees."""


def adapt(data: dict[str, Any], report: Report) -> tuple[dict[str, Any], ServeProxies]:
    """The configuration to send, and where its proxies listen. `data` is valid for Ray."""
    config = copy.deepcopy(data)
    location = config.get("proxy_location", "EveryNode")
    http, grpc = config.get("http_options", {}), config.get("grpc_options", {})
    _location(location, bool(http.get("ssl_certfile")), report)
    host = http.get("host", _ALL_ADDRESSES[0])
    if host not in _ALL_ADDRESSES:
        why = "is reachable in the pod alone" if _is_loopback(host) else "is not an address of every pod"
        report.note(("http_options", "host"), f"{quoted(host)} {why}: replaced by {_ALL_ADDRESSES[0]}")
        http["host"] = _ALL_ADDRESSES[0]
    proxies = ServeProxies(
        http_port=_port(http.get("port", SERVE_PORT)),
        grpc_port=_port(grpc.get("port", GRPC_PORT)) if grpc.get("grpc_servicer_functions") else None,
        on_workers=location == "EveryNode",
        https=bool(http.get("ssl_certfile")),
    )
    _ports(proxies, grpc, report)
    if http.get("ssl_certfile"):
        _https(http, report)
    if config.get("target_capacity") is not None:
        report.note(("target_capacity",), "an incremental upgrade overrides it: KubeRay sets it step by step")
    for path, value in _leaves(config, ()):
        _leaf(path, value, report)
    return config, proxies


def _location(location: str, https: bool, report: Report) -> None:
    at = ("proxy_location",)
    if location == "Disabled":
        report.reject(at, "nothing would answer: KubeRay has no endpoint without a proxy", "EveryNode, or HeadOnly")
    elif location == "HeadOnly" and https:
        report.reject(at, "cannot be combined with HTTPS: KubeRay asks the head's proxy over HTTP", "EveryNode")
    elif location == "HeadOnly":
        report.note(at, "HeadOnly: only the head answers; workers are probed without a proxy (requires KubeRay 1.6)")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _port(value: Any) -> int:
    return int(as_number(value) or 0)


def _ports(proxies: ServeProxies, grpc: dict[str, Any], report: Report) -> None:
    http, own = ("http_options", "port"), ("grpc_options", "port")
    if proxies.http_port != SERVE_PORT:
        report.note(http, f"{proxies.http_port}: container port, probes and Service follow")
    if proxies.grpc_port is not None:
        report.note(
            (*own[:1], "grpc_servicer_functions"),
            f"gRPC on port {proxies.grpc_port}, named serve-grpc: KubeRay 1.6 includes it in the Service",
        )
    elif grpc:
        report.note(own[:1], "Ray starts no gRPC server without grpc_servicer_functions")
    if proxies.grpc_port == proxies.http_port:
        report.reject(own, f"{proxies.grpc_port} is that of http_options as well")
    for path, port in ((http, proxies.http_port), (own, proxies.grpc_port)):
        if port is not None and (reason := port_problem(port)):
            report.reject(path, reason)
        elif port in WORKER_PORTS:
            report.note(path, f"{port} is in the range of Ray's worker processes, one of which may have taken it")


def _https(http: dict[str, Any], report: Report) -> None:
    at = ("http_options", "ssl_certfile")
    report.note(at, "HTTPS: workers answer, the head does not: KubeRay asks its proxy over HTTP")
    report.note(at, "the files have to be in the pods: --volume secret:NAME:/PATH")
    if http.get("ssl_keyfile_password"):
        report.note(("http_options", "ssl_keyfile_password"), _EXPOSED)


_EXPOSED = "looks like a credential; anyone who can read the RayService can read it"


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _leaf(path: Path, value: Any, report: Report) -> None:
    """A scalar that KubeRay changes on its way to Ray, or that everyone can read."""
    named = "env_vars" in path and names_a_secret(str(path[-1]))
    if isinstance(value, str) and value and not is_reference(value) and (named or holds_a_credential(value)):
        report.note(path, _EXPOSED, "put it in a Secret and mount that: --volume secret:NAME:/PATH")
    elif isinstance(value, int) and not -_BIGGEST <= value < _BIGGEST:
        report.note(path, "has more than 64 bits: KubeRay rounds it to a float", "quote it")
    elif isinstance(value, float) and value.is_integer() and _CODE_VALUES & set(path):
        report.note(path, f"{shown(value)} reaches the application as an integer: KubeRay sends the file as JSON")
