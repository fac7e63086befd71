"""Requests to the Serve applications of e2e/applications, over HTTP and gRPC."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from e2e.harness import Bench

APPLICATIONS = Path(__file__).parent / "applications"

_SAY = """
import grpc, sys
from google.protobuf.wrappers_pb2 import StringValue

address, application = sys.argv[1:]
channel = grpc.insecure_channel(address)
say = channel.unary_unary("/e2e.Chat/Say", request_serializer=StringValue.SerializeToString,
                          response_deserializer=StringValue.FromString)
# kube-proxy takes a moment on a busy node to know the port of a Service that is new.
metadata = (("application", application),)
print(say(StringValue(value="Hello"), timeout=60, wait_for_ready=True, metadata=metadata).value)
"""


def posted(url: str, body: Any) -> Any:
    """The answer to a JSON value."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def said_over_grpc(bench: Bench, service: str, application: str) -> str:
    """What the method Say of chat.py answers, asked in the cluster."""
    heads = bench.items("pods", "ray.io/node-type=head")
    head = next(pod for pod in heads if "deletionTimestamp" not in pod["metadata"])
    return bench.kubectl(
        "exec", "-n", bench.namespace, head["metadata"]["name"], "-c", "ray-head", "--",
        "python3", "-c", _SAY, f"{service}.{bench.namespace}:9000", application,
    ).strip()  # fmt: skip
