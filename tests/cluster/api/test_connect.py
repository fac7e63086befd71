from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from kubernetes.config import incluster_config

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api import connect as config
from rayllm_ctl.errors import UsageError
from tests.cluster.api.test_credentials import EXPIRED
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in a pod: the folder of a service account, and where the API server is."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in (("token", "pod-token"), ("ca.crt", EXPIRED), ("namespace", "team-a\n")):
        (folder / name).write_text(text)
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", folder)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def test_in_a_pod_without_a_kubeconfig_its_service_account_is_used(inside: Path) -> None:
    cluster = connect()
    assert (cluster.server, cluster.namespace, cluster.context) == ("https://10.0.0.1:443", "team-a", "")


def test_a_kubeconfig_goes_before_the_service_account(inside: Path, api: FakeAPI, tmp_path: Path) -> None:
    assert connect(str(kubeconfig(tmp_path / "config", api.url, token="t"))).server == api.url


def test_a_context_needs_a_kubeconfig(inside: Path) -> None:
    with pytest.raises(UsageError, match='no kubeconfig to look up context "prod"'):
        connect(context="prod")


@pytest.mark.parametrize("missing", ["namespace", "ca.crt"])
def test_a_broken_service_account(inside: Path, missing: str) -> None:
    (inside / missing).unlink()
    with pytest.raises(UsageError, match="service account cannot be used"):
        connect()


def test_the_token_of_a_service_account_is_read_again(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now()
    clock = SimpleNamespace(datetime=SimpleNamespace(now=lambda: now), timedelta=timedelta)
    monkeypatch.setattr(incluster_config, "datetime", clock)
    cluster = connect()

    def sent() -> str:
        return dict(cluster.headers())["Authorization"].removeprefix("bearer ")

    assert sent() == "pod-token"
    (inside / "token").write_text("rotated\n")
    now += timedelta(minutes=2)
    assert sent() == "rotated"
    (inside / "token").unlink()
    assert sent() == "rotated"
    now += timedelta(minutes=2)
    with pytest.raises(UsageError, match="service account cannot be used"):
        sent()


def test_connecting_leaves_the_kubeconfig_as_it_is(api: FakeAPI, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", api.url, token="  padded\n")
    before = file.read_bytes()
    connect(str(file)).server_version()
    assert file.read_bytes() == before
    assert api.requests[0].headers["Authorization"] == "Bearer padded"
