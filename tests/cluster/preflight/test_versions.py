from __future__ import annotations

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.preflight.versions import kuberay_version, server_version
from tests.cluster.fakeapi import FakeAPI, status


def operator(api: FakeAPI, image: str, **labels: str) -> None:
    api.put(
        kind="Deployment",
        metadata={"name": "op", "namespace": "k", "labels": {"app.kubernetes.io/name": "kuberay-operator"} | labels},
        spec={"template": {"spec": {"containers": [{"name": "op", "image": image}]}}},
    )


def test_server(cluster: Cluster) -> None:
    assert server_version(cluster) == "v1.36.2"


@pytest.mark.parametrize(
    ("image", "labels", "version"),
    [
        ("quay.io/kuberay/operator:v1.6.2", {}, "1.6.2"),
        ("localhost:5000/operator:1.5.1", {}, "1.5.1"),
        ("quay.io/kuberay/operator:v1.7.0-rc.1@sha256:abc", {}, "1.7.0-rc.1"),
        ("quay.io/kuberay/operator@sha256:abc", {"app.kubernetes.io/version": "v1.6.2"}, "1.6.2"),
        ("quay.io/kuberay/operator:latest", {"helm.sh/chart": "kuberay-operator-1.6.2"}, "1.6.2"),
        ("rayproject/operator:v1.6.2", {"app.kubernetes.io/name": "kuberay"}, "1.6.2"),
        ("localhost:5000/operator", {}, None),
    ],
)
def test_kuberay(api: FakeAPI, cluster: Cluster, image: str, labels: dict[str, str], version: str | None) -> None:
    operator(api, image, **labels)
    assert kuberay_version(cluster) == version


def test_kuberay_that_is_not_there_or_may_not_be_looked_for(api: FakeAPI, cluster: Cluster) -> None:
    assert kuberay_version(cluster) is None
    refused = status(403, 'cannot list resource "deployments" in API group "apps"', "Forbidden")
    api.answer("GET", "deployments", refused)
    assert kuberay_version(cluster) is None
