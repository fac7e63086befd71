"""The cluster's certificates, made by openssl for each start, and the kubeconfigs that hold them."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.cluster.layout import API_SERVER, API_SERVICE_ADDRESS, CLUSTER_DOMAIN, HOST_ADDRESS, Node
from e2e.cluster.shell import run

_DAYS: Final = "3650"
_CURVE: Final = "prime256v1"

# Common name and organisation decide the rights: they are the user and the groups that the API server sees.
# https://kubernetes.io/docs/setup/best-practices/certificates/
_CLIENTS: Final = {
    "admin": "/O=system:masters/CN=admin",
    "apiserver-kubelet-client": "/O=system:masters/CN=apiserver-kubelet-client",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "kube-router": "/CN=kube-router",
}


def make(directory: Path, nodes: Sequence[Node]) -> None:
    """Fill `directory` with both authorities, the API server's certificate, each client's and each node's."""
    directory.mkdir(mode=0o700, parents=True)
    _authority(directory, "ca")
    _authority(directory, "front-proxy-ca")
    service = "kubernetes.default.svc"
    names = ["kubernetes", "kubernetes.default", service, f"{service}.{CLUSTER_DOMAIN}", "localhost"]
    addresses = [HOST_ADDRESS, "127.0.0.1", API_SERVICE_ADDRESS]
    alternatives = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
    _certificate(directory, "apiserver", "/CN=kube-apiserver", alternatives=alternatives)
    _certificate(directory, "front-proxy-client", "/CN=front-proxy-client", authority="front-proxy-ca")
    for name, subject in _CLIENTS.items():
        _certificate(directory, name, subject)
    for node in nodes:
        _certificate(directory, node.name, f"/O=system:nodes/CN=system:node:{node.name}")
    _key(directory / "service-account.key")
    run(
        [
            "openssl",
            "ec",
            "-in",
            directory / "service-account.key",
            "-pubout",
            "-out",
            directory / "service-account.pub",
        ]
    )


def write_kubeconfig(directory: Path, name: str, out: Path) -> None:
    """Write a kubeconfig for the client `name` of `directory`, readable by its owner only."""

    def data(file: str) -> str:
        return base64.b64encode((directory / file).read_bytes()).decode()

    text = f"""\
apiVersion: v1
kind: Config
clusters:
- name: rayllm-e2e
  cluster:
    server: {API_SERVER}
    certificate-authority-data: {data("ca.crt")}
users:
- name: {name}
  user:
    client-certificate-data: {data(f"{name}.crt")}
    client-key-data: {data(f"{name}.key")}
contexts:
- name: rayllm-e2e
  context: {{cluster: rayllm-e2e, user: {name}}}
current-context: rayllm-e2e
"""
    with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def _authority(directory: Path, name: str) -> None:
    key, certificate = directory / f"{name}.key", directory / f"{name}.crt"
    _key(key)
    extensions = [
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "keyUsage=critical,keyCertSign,digitalSignature",
    ]
    subject = ["-subj", f"/CN=rayllm-e2e {name}"]
    run(["openssl", "req", "-x509", "-new", "-key", key, *subject, "-days", _DAYS, *extensions, "-out", certificate])


def _certificate(directory: Path, name: str, subject: str, *, authority: str = "ca", alternatives: str = "") -> None:
    key, request, certificate = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
    _key(key)
    extensions = ["-addext", "extendedKeyUsage=clientAuth,serverAuth"]
    if alternatives:
        extensions += ["-addext", f"subjectAltName={alternatives}"]
    run(["openssl", "req", "-new", "-key", key, "-subj", subject, *extensions, "-out", request])
    issuer = directory / authority
    signer = ["-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key", "-CAcreateserial"]
    copied = ["-copy_extensions", "copy"]
    run(["openssl", "x509", "-req", "-in", request, *signer, "-days", _DAYS, *copied, "-out", certificate])
    request.unlink()


def _key(path: Path) -> None:
    # openssl gives its key files mode 0600, and the directory is closed to others as well.
    run(["openssl", "ecparam", "-name", _CURVE, "-genkey", "-noout", "-out", path])
