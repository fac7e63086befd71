from __future__ import annotations

import base64
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api.credentials import certificate_end, ended, source, token_end
from rayllm_ctl.errors import ClusterError, UsageError
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig

EXPIRED = """-----BEGIN CERTIFICATE-----
MIIBijCCATGgAwIBAgIUQWZE3eD838cWhADv1L/yBGIujPowCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHcHJpdi1jYTAeFw0yNjExMjExOTQ1MzhaFw0yNjExMjAxOTQ1
MzhaMCcxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMQwwCgYDVQQDDANvbGQwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAASEX1bXrhVlYxhGzY8z7WJhxWNv7/sGmHM0
F2inW0xoH5/FYBMCshht3ut/jKLUBEw2V4uWTJFZLUxE4KhnNWwZo1AwTjAMBgNV
HREEBTADggF4MB0GA1UdDgQWBBSrCUVbH3uxeDFEKOyLDXtLu8QlxzAfBgNVHSME
GDAWgBTAyrInjOX1XrVsMWKr7QY+VSz/hTAKBggqhkjOPQQDAgNHADBEAiAlA4xZ
Y+5vN6hzLx0MmH3Kk/7CTznEPaDGy9Ry+19HWwIgODVxFrK45dMJwW9rXiVtj/Jt
4bJUCWX5/wFJ6kiKeMY=
-----END CERTIFICATE-----
"""
"""A certificate whose notAfter is 2026-11-20 19:45:38 UTC; its key was thrown away."""


def jwt(**claims: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{part}.sig"


def plugin(tmp_path: Path, script: str) -> dict[str, object]:
    file = tmp_path / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file)}}


def credential(**status: str) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(body)}'"


def test_end_of_a_certificate() -> None:
    assert certificate_end(EXPIRED) == datetime(2026, 11, 20, 19, 45, 38, tzinfo=UTC)


@pytest.mark.parametrize("pem", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_end_of_what_is_no_certificate(pem: str) -> None:
    assert certificate_end(pem) is None


def test_end_of_a_token() -> None:
    assert token_end(jwt(exp=1000)) == datetime.fromtimestamp(1000, UTC)


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", jwt(sub="x"), jwt(exp="soon"), jwt(exp=10**30)])
def test_end_of_a_token_that_does_not_say(token: str) -> None:
    assert token_end(token) is None


def test_what_has_ended() -> None:
    assert ended(EXPIRED, "") == "the client certificate expired on 2026-11-20 19:45 UTC"
    assert ended("", f"Bearer {jwt(exp=0)}") == "the token expired on 1970-01-01 00:00 UTC"
    assert ended("", f"Bearer {jwt(exp=4_000_000_000)}") is None
    assert ended("", "") is None


def test_a_plugin_gives_the_token_that_is_sent(api: FakeAPI, tmp_path: Path) -> None:
    user = plugin(tmp_path, credential(token="from-plugin"))
    connect(str(kubeconfig(tmp_path / "config", api.url, **user))).server_version()
    assert api.requests[0].headers["Authorization"] == "Bearer from-plugin"


def test_a_token_near_its_end_is_renewed(api: FakeAPI, tmp_path: Path) -> None:
    count = tmp_path / "count"
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    script = f"echo x >> {count}\n{credential(token='t', expirationTimestamp=soon)}"
    cluster = connect(str(kubeconfig(tmp_path / "config", api.url, **plugin(tmp_path, script))))
    cluster.server_version()
    cluster.server_version()
    assert count.read_text().count("x") == 3


def test_a_token_with_time_left_is_kept(api: FakeAPI, tmp_path: Path) -> None:
    count = tmp_path / "count"
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    script = f"echo x >> {count}\n{credential(token='t', expirationTimestamp=later)}"
    cluster = connect(str(kubeconfig(tmp_path / "config", api.url, **plugin(tmp_path, script))))
    cluster.server_version()
    cluster.server_version()
    assert count.read_text().count("x") == 1


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'session expired' >&2; exit 3", "failed with exit code 3: session expired"),
        ("echo nonsense", "printed no ExecCredential"),
        ("echo '{}'", "printed no ExecCredential"),
        (credential(expirationTimestamp="2030-01-01T00:00:00Z"), "returned neither a token nor a certificate"),
    ],
)
def test_a_plugin_that_fails(tmp_path: Path, script: str, problem: str) -> None:
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", **plugin(tmp_path, script))
    with pytest.raises(ClusterError) as caught:
        connect(str(config))
    assert problem in caught.value.message
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("closed", [False, True])
def test_a_plugin_gets_its_environment_and_the_protocol(
    api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    if closed:
        monkeypatch.setattr("sys.stdin", None)
    seen = tmp_path / "seen"
    user = plugin(tmp_path, f'echo "$ZONE $KUBERNETES_EXEC_INFO" > {seen}\n{credential(token="t")}')
    user["exec"] |= {"env": [{"name": "ZONE", "value": "eu"}], "provideClusterInfo": True}  # type: ignore[operator]
    connect(str(kubeconfig(tmp_path / "config", api.url, **user)))
    zone, _, info = seen.read_text().partition(" ")
    assert zone == "eu"
    assert json.loads(info)["spec"] == {"interactive": False, "cluster": {"server": api.url}}


def test_a_plugin_with_a_malformed_environment(tmp_path: Path) -> None:
    user = {"exec": {"command": "true", "env": ["ZONE"]}}
    with pytest.raises(UsageError, match="env is not a list of name and value"):
        connect(str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1", **user)))


def test_a_plugin_that_is_missing_says_how_to_install_it(tmp_path: Path) -> None:
    user = {"exec": {"command": "gke-gcloud-auth-plugin-x", "installHint": "gcloud components install it"}}
    with pytest.raises(ClusterError, match="could not be started: No such file") as caught:
        connect(str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1", **user)))
    assert caught.value.hints == ("gcloud components install it",)


def test_a_token_file_is_read_without_its_newline(api: FakeAPI, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    connect(str(kubeconfig(tmp_path / "config", api.url, tokenFile="token"))).server_version()
    assert api.requests[0].headers["Authorization"] == "Bearer from-file"


def test_a_token_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"token file .*/token of user \"alice\" cannot be read"):
        connect(str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1", tokenFile="token")))


@pytest.mark.parametrize("name", ["gcp", "azure"])
def test_a_provider_that_is_not_supported(name: str) -> None:
    with pytest.raises(UsageError, match=f'auth-provider "{name}", which is not supported'):
        source({"auth-provider": {"name": name}}, "alice", {})


def oidc(token: str) -> dict[str, object]:
    return {"auth-provider": {"name": "oidc", "config": {"id-token": token} if token else {}}}


def test_the_id_token_of_an_openid_connect_user() -> None:
    found = source(oidc(jwt(exp=4_000_000_000)), "alice", {})
    assert found is not None
    assert found.get().token == jwt(exp=4_000_000_000)


@pytest.mark.parametrize(("token", "why"), [("", "is missing"), (jwt(exp=0), "has expired")])
def test_an_id_token_that_kubectl_has_to_renew(token: str, why: str) -> None:
    found = source(oidc(token), "alice", {})
    assert found is not None
    with pytest.raises(UsageError, match=f'the ID token of user "alice" in the kubeconfig {why}'):
        found.get()


def test_a_password_is_sent(api: FakeAPI, tmp_path: Path) -> None:
    connect(str(kubeconfig(tmp_path / "config", api.url, username="alice", password="p"))).server_version()
    assert api.requests[0].headers["Authorization"] == "Basic YWxpY2U6cA=="


def test_a_plugin_that_hangs_is_named_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.cluster.api.credentials._PATIENCE", 0.1)
    config = kubeconfig(
        tmp_path / "config", "http://127.0.0.1:1", **plugin(tmp_path, f"sleep 60; touch {tmp_path}/ended")
    )
    told: list[str] = []
    with pytest.raises(ClusterError) as caught:
        connect(str(config), request_timeout=1, notify=told.append)
    assert not (tmp_path / "ended").exists(), "it was waited for"
    what = f'the credential plugin "{tmp_path}/plugin" of user "alice"'
    assert told == [f"waiting for {what}"]
    assert caught.value.message == f"{what} did not answer within 1s"


def test_a_plugin_that_is_slow_is_waited_for(api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.cluster.api.credentials._PATIENCE", 0.1)
    config = kubeconfig(tmp_path / "config", api.url, **plugin(tmp_path, f"sleep 0.5; {credential(token='t')}"))
    told: list[str] = []
    connect(str(config), notify=told.append).server_version()
    assert len(told) == 1


def test_impersonation_of_the_kubeconfig_is_honoured(api: FakeAPI, tmp_path: Path) -> None:
    user = {"token": "t", "as": "bob", "as-groups": ["ops", "dev"]}
    connect(str(kubeconfig(tmp_path / "config", api.url, **user))).server_version()
    headers = api.requests[0].headers
    assert (headers["Impersonate-User"], headers["Impersonate-Group"]) == ("bob", "ops, dev")


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"client-certificate-data": "eA==", "client-key-data": "eA=="}, 'certificate or key of user "alice"'),
        (
            {"client-certificate": "gone.crt", "client-key": "gone.key"},
            r"cannot be used: File does not exist: /.*/gone.crt",
        ),
        ({"client-certificate-data": "abc", "client-key-data": "abc"}, "cannot be used: not valid base64"),
    ],
)
def test_certificates_that_cannot_be_read(tmp_path: Path, user: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        connect(str(kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **user)))


def test_no_kubeconfig_at_all() -> None:
    with pytest.raises(UsageError, match="there is no kubeconfig"):
        connect()
