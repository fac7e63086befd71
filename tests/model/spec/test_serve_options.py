"""What is wrong with Ray Serve's options, and where its proxies listen."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.spec.serve_options import (
    GRPCOptions,
    HTTPOptions,
    Serve,
    ServeProxies,
    proxies_of,
    serve_problems,
)

SERVICER = "chat_pb2_grpc.add_ChatServicer_to_server"


@pytest.mark.parametrize(
    ("serve", "where", "words"),
    [
        (Serve(http=HTTPOptions(request_timeout=0)), "spec.serve.http.requestTimeout", "greater than 0"),
        (Serve(http=HTTPOptions(request_timeout=float("inf"))), "spec.serve.http.requestTimeout", "at most 2147483647"),
        (Serve(http=HTTPOptions(keep_alive_timeout=1.5)), "spec.serve.http.keepAliveTimeout", "whole number"),
        (Serve(grpc=GRPCOptions(port=9000)), "spec.serve.grpc", "no effect without servicerFunctions"),
        (Serve(grpc=GRPCOptions(9000, ("add",))), "spec.serve.grpc.servicerFunctions[0]", "not an import path"),
        (Serve(grpc=GRPCOptions(8000, (SERVICER,))), "spec.serve.grpc.port", "the HTTP port"),
        (Serve(grpc=GRPCOptions(8265, (SERVICER,))), "spec.serve.grpc.port", "Ray's dashboard"),
        (Serve(grpc=GRPCOptions(70000, (SERVICER,))), "spec.serve.grpc.port", "between 1 and 65535"),
        (Serve(grpc=GRPCOptions(None, (SERVICER,), -1)), "spec.serve.grpc.requestTimeout", "greater than 0"),
    ],
)
def test_what_is_rejected(serve: Serve, where: str, words: str) -> None:
    [problem] = serve_problems(serve)
    assert problem.where == where
    assert words in problem.message


@pytest.mark.parametrize(
    ("serve", "proxies"),
    [
        (Serve(), ServeProxies()),
        (Serve("HeadOnly"), ServeProxies(on_workers=False)),
        (Serve(grpc=GRPCOptions(None, (SERVICER,))), ServeProxies(grpc_port=9000)),
        (Serve(grpc=GRPCOptions(9001, (SERVICER,))), ServeProxies(grpc_port=9001)),
    ],
)
def test_where_proxies_listen(serve: Serve, proxies: ServeProxies) -> None:
    assert list(serve_problems(serve)) == []
    assert proxies_of(serve) == proxies
