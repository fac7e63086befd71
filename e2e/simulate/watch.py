"""Keeps the table of Ray pods as the API server has them: list, then watch, then list again when the watch ends."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.simulate import gpus
from e2e.simulate.pods import CLUSTER_LABEL, PodTable, ray_pod

_WATCH_SECONDS: Final = 300
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True)
class ApiServer:
    """Where the API server is, and how to prove who we are."""

    url: str
    tls: ssl.SSLContext

    def get(self, path: str) -> dict[str, Any]:
        """The object at a path. urllib.error.URLError if it cannot be had."""
        with self._open(path, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def lines(self, path: str) -> Iterator[dict[str, Any]]:
        """The events of a watch, until the server ends it."""
        with self._open(path, timeout=_WATCH_SECONDS + 30) as answer:
            for line in answer:
                yield json.loads(line)

    def _open(self, path: str, timeout: float) -> Any:
        return urllib.request.urlopen(self.url + path, timeout=timeout, context=self.tls)


def from_kubeconfig(path: Path) -> ApiServer:
    """The API server of a kubeconfig's current context, with a client certificate. KeyError for what is missing."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    tls = ssl.create_default_context(cadata=_material(cluster, "certificate-authority").decode())
    # The ssl module reads a client's certificate from files only.
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "certificate"), Path(directory, "key")
        certificate.write_bytes(_material(user, "client-certificate"))
        key.touch(mode=0o600)
        key.write_bytes(_material(user, "client-key"))
        tls.load_cert_chain(certificate, key)
    return ApiServer(cluster["server"], tls)


def follow(api: ApiServer, table: PodTable) -> None:
    """Keep the table up to date for ever. While the API server is away the table stays as it was."""
    while True:
        try:
            list_and_watch(api, table)
        except (urllib.error.URLError, HTTPException, OSError, json.JSONDecodeError) as error:
            print(f"the API server is away: {error}", flush=True)
            time.sleep(_PAUSE_SECONDS)


def list_and_watch(api: ApiServer, table: PodTable) -> None:
    """Bring the table to what the API server lists, then follow one watch to its end."""
    accelerators: dict[str, str] = {}
    for node in api.get("/api/v1/nodes")["items"]:
        _note_node(node, accelerators)
    selector = f"labelSelector={CLUSTER_LABEL}"
    listed = api.get(f"/api/v1/pods?{selector}")
    for item in listed["items"]:
        _note_pod(item, accelerators, table)
    table.keep_only({item["metadata"]["uid"] for item in listed["items"]})
    version = listed["metadata"]["resourceVersion"]
    query = f"{selector}&watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
    for event in api.lines(f"/api/v1/pods?{query}"):
        manifest = event["object"]
        if event["type"] == "ERROR":  # Mostly 410: the version is too old, so list again.
            return
        if event["type"] == "DELETED":
            table.remove(manifest["metadata"]["uid"])
            continue
        node = manifest["spec"].get("nodeName")
        if node and node not in accelerators:
            _note_node(api.get(f"/api/v1/nodes/{node}"), accelerators)
        _note_pod(manifest, accelerators, table)


def _note_node(node: Mapping[str, Any], accelerators: dict[str, str]) -> None:
    metadata = node["metadata"]
    accelerators[metadata["name"]] = gpus.ray_accelerator_type(metadata.get("labels", {}))


def _note_pod(manifest: Mapping[str, Any], accelerators: Mapping[str, str], table: PodTable) -> None:
    pod = ray_pod(manifest, accelerators)
    if pod:
        table.put(pod)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(f"the kubeconfig has no entry named {name!r}")


def _material(entry: Mapping[str, str], name: str) -> bytes:
    """A certificate or key, given in the kubeconfig itself or as a file."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return Path(entry[name]).read_bytes()
