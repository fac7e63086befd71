"""Ray Serve's own options for proxies and logs.

Source: Ray 2.60.0, ray/serve/schema.py (HTTPOptionsSchema, gRPCOptionsSchema, LoggingConfig). Ray reads them when Serve
starts in a Ray cluster; of a running cluster it changes only the logging.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.kuberay import SERVE_PORT
from rayllm_ctl.model.spec.form import SECONDS
from rayllm_ctl.model.text.patterns import Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

ProxyLocation = Literal["EveryNode", "HeadOnly"]
LogEncoding = Literal["TEXT", "JSON"]
LogLevel = Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"]

GRPC_PORT = 9000
"""Ray's default (DEFAULT_GRPC_PORT)."""

TAKEN_PORTS = {
    6379: "the GCS",
    8080: "Ray's metrics",
    8265: "Ray's dashboard",
    10001: "Ray's client server",
    44217: "the autoscaler's metrics",
    44227: "the dashboard's metrics",
    52365: "Ray's dashboard agent",
}
"""Ports of every Ray pod, and what listens there."""

WORKER_PORTS = range(10002, 20000)
"""Ports of Ray's worker processes (`ray start`: --min-worker-port, --max-worker-port)."""

IMPORT_PATH = Pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")


@dataclass(frozen=True)
class HTTPOptions:
    """The HTTP server of Serve's proxies.

    Times are seconds.
    """

    request_timeout: Annotated[float | None, SECONDS, "Time limit of a request; none by default."] = None
    keep_alive_timeout: Annotated[
        float | None, SECONDS, "How long an idle connection is kept, in whole seconds; 90s by default."
    ] = None


@dataclass(frozen=True)
class GRPCOptions:
    """The gRPC server of Serve's proxies, which Ray starts where there are servicer functions."""

    port: Annotated[int | None, "Port of the pods and the Service; 9000 by default."] = None
    servicer_functions: Annotated[
        tuple[str, ...], "Import paths of the add_..._to_server functions of the services; in the image."
    ] = ()
    request_timeout: Annotated[float | None, SECONDS, "Time limit of a request; none by default."] = None


@dataclass(frozen=True)
class ServeLogging:
    """The logs of Serve's controller, proxies and replicas."""

    encoding: Annotated[LogEncoding | None, "TEXT (the default), or JSON."] = None
    level: Annotated[LogLevel | None, "Least severe level that is logged; INFO by default."] = None
    enable_access_log: Annotated[bool | None, "Log every request; true by default."] = None


@dataclass(frozen=True)
class Serve:
    """Ray Serve's own options."""

    proxy_location: Annotated[
        ProxyLocation, "Which pods answer requests: each with a replica (EveryNode), or the head alone (HeadOnly)."
    ] = "EveryNode"
    http: HTTPOptions = HTTPOptions()
    grpc: GRPCOptions = GRPCOptions()
    logging: ServeLogging = ServeLogging()


@dataclass(frozen=True)
class ServeProxies:
    """Where Serve's proxies listen."""

    http_port: Annotated[int, "HTTP port of Serve's proxies."] = SERVE_PORT
    grpc_port: Annotated[int | None, "Their gRPC port; null: they have none."] = None
    on_workers: Annotated[bool, "Whether workers have a proxy, and not the head alone."] = True
    https: Annotated[bool, "Whether they answer over TLS."] = False


def serve_problems(serve: Serve) -> Iterator[Problem]:
    """All that is wrong with spec.serve."""
    http, grpc = ("spec", "serve", "http"), ("spec", "serve", "grpc")
    yield from _time((*http, "requestTimeout"), serve.http.request_timeout)
    keep = serve.http.keep_alive_timeout
    yield from _time((*http, "keepAliveTimeout"), keep)
    if keep is not None and keep > 0 and keep != int(keep):
        yield Problem((*http, "keepAliveTimeout"), f"must be a whole number of seconds, not {keep:g}")
    for index, name in enumerate(serve.grpc.servicer_functions):
        if not IMPORT_PATH.fullmatch(name):
            yield Problem(
                (*grpc, "servicerFunctions", index),
                f"{quoted(name)} is not an import path, such as chat_pb2_grpc.add_ChatServicer_to_server",
            )
    yield from _time((*grpc, "requestTimeout"), serve.grpc.request_timeout)
    if serve.grpc != GRPCOptions() and not serve.grpc.servicer_functions:
        yield Problem(grpc, "has no effect without servicerFunctions: Ray then starts no gRPC server")
    port = serve.grpc.port
    if port is not None and (reason := port_problem(port)):
        yield Problem((*grpc, "port"), reason)
    elif port == SERVE_PORT:
        yield Problem((*grpc, "port"), f"{port} is the HTTP port")


def port_problem(port: int) -> str | None:
    """Why Serve cannot listen on `port` in a Ray pod; None if it can."""
    if not 0 < port < 65536:
        return f"must be between 1 and 65535, not {port}"
    if port in TAKEN_PORTS:
        return f"{port} is the port of {TAKEN_PORTS[port]}"
    return None


def proxies_of(serve: Serve) -> ServeProxies:
    """Where the proxies of a service with these options listen."""
    grpc = serve.grpc
    return ServeProxies(
        grpc_port=(grpc.port or GRPC_PORT) if grpc.servicer_functions else None,
        on_workers=serve.proxy_location == "EveryNode",
    )


def _time(path: Path, seconds: float | None) -> Iterator[Problem]:
    if seconds is None:
        return
    if seconds > 2**31 - 1:
        yield Problem(path, f"must be at most {2**31 - 1} seconds, not {seconds:g}")
    elif not seconds > 0:
        yield Problem(path, f"must be greater than 0, not {seconds:g}")
