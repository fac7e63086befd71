"""Addresses outside the cluster: what status, endpoint and deploy say of them, and what they read for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.workload import Right
from tests.cli.conftest import Run
from tests.cli.rollout.test_surroundings import SPEC
from tests.cli.test_commands_rights import grants
from tests.cluster.fakeapi import FakeAPI

EXPOSED = (
    SPEC
    + """\
  exposure:
    type: LoadBalancer
    ingress: {host: tiny.example.com, className: nginx, tls: {secretName: tls}}
    gateway: {name: public, namespace: infra, hostnames: [tiny.example.org]}
"""
)
LISTENER = {"name": "tls", "protocol": "HTTPS", "port": 443}
PROGRAMMED = {"conditions": [{"type": "Programmed", "status": "True"}], "addresses": [{"value": "203.0.113.9"}]}


@pytest.fixture
def deploy(api: FakeAPI, run: Run, tmp_path: Path) -> str:
    """The command that deploys an exposed service, which has run once."""
    api.put(
        kind="Gateway", metadata={"name": "public", "namespace": "infra"}, spec={"listeners": [LISTENER]},
        status=PROGRAMMED,
    )  # fmt: skip
    spec = tmp_path / "tiny.yaml"
    spec.write_text(EXPOSED, encoding="utf-8")
    assert run("apply", "-f", str(spec), "--offline").code == 0
    return str(spec)


def change(api: FakeAPI, kind: str, name: str, **status: Any) -> None:
    api.put(**{**api.stored(kind, name), "status": status})


def settle(api: FakeAPI) -> None:
    """What controllers write once every address is there."""
    balanced = {"ingress": [{"ip": "203.0.113.7"}]}
    parent = {"name": "public", "namespace": "infra"}
    change(api, "Service", "tiny-serve-svc", loadBalancer=balanced)
    change(api, "Ingress", "tiny", loadBalancer=balanced)
    accepted = [{"parentRef": parent, "conditions": [{"type": "Accepted", "status": "True"}]}]
    change(api, "HTTPRoute", "tiny", parents=accepted)


PENDING = """\
external  Pending: no address has been assigned yet (service/tiny-serve-svc)
external  https://tiny.example.com/v1  Rejected: IngressClass nginx does not exist (ingress/tiny)
external  https://tiny.example.org/v1  Pending: no controller of gateway infra/public has accepted it yet \
(httproute/tiny)
"""
READY = """\
external  http://203.0.113.7:8000/v1 (service/tiny-serve-svc)
external  https://tiny.example.com/v1 (ingress/tiny)
external  https://tiny.example.org/v1 (httproute/tiny)
"""


def test_endpoint_says_the_address_or_why_there_is_none(run: Run, api: FakeAPI, deploy: str) -> None:
    told = run("endpoint", "tiny")
    assert (told.code, told.out, told.err) == (0, "http://tiny-serve-svc.llm:8000/v1\n", PENDING)
    none = run("endpoint", "tiny", "--external")
    assert (none.code, none.out) == (1, "")
    assert "has no usable external address:" in none.err
    assert "ingress/tiny: Rejected: IngressClass nginx does not exist" in none.err
    settle(api)
    assert run("endpoint", "tiny").err == READY
    assert run("endpoint", "tiny", "--external").out == "http://203.0.113.7:8000/v1\n"
    shown = json.loads(run("endpoint", "tiny", "-o", "json").out)
    assert shown["url"] == "http://tiny-serve-svc.llm:8000/v1"
    assert [(one["object"], one["state"], one["urls"]) for one in shown["external"]] == [
        ("service/tiny-serve-svc", "Ready", ["http://203.0.113.7:8000/v1"]),
        ("ingress/tiny", "Ready", ["https://tiny.example.com/v1"]),
        ("httproute/tiny", "Ready", ["https://tiny.example.org/v1"]),
    ]


def test_a_service_that_is_not_exposed_asks_for_nothing_of_it(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    spec = tmp_path / "tiny.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    assert run("apply", "-f", str(spec), "--offline", "--wait").code == 0
    api.requests.clear()
    assert "external" not in run("status", "tiny").out
    none = run("endpoint", "tiny", "--external")
    assert (none.code, none.out) == (1, "")
    assert "service llm/tiny is not exposed outside the cluster" in none.err
    assert "<none>" in run("status").out
    assert api.count("GET", "ingress|httproute|gateway") == 0


def test_status_and_deploy_say_them_and_the_model_is_ready_without(run: Run, api: FakeAPI, deploy: str) -> None:
    status = run("status", "tiny")
    assert (status.code, status.out.split()[1]) == (0, "Ready")
    assert "  external  Pending: no address has been assigned yet (service/tiny-serve-svc)\n" in status.out
    assert "<pending>" in run("status").out
    deployed = run("apply", "-f", deploy, "--offline", "--wait")
    assert deployed.code == 0
    for line in PENDING.splitlines():
        assert f"note      {line}" in deployed.err.replace("note        ", "note      ")
    assert "rayllm-ctl status tiny -n llm   # whether they can be reached" in deployed.err
    settle(api)
    for line in READY.splitlines():
        assert f"  {line}\n" in run("status", "tiny").out
    assert "http://203.0.113.7:8000/v1" in run("status", "-A").out


def test_a_missing_right_is_said(run: Run, api: FakeAPI, deploy: str) -> None:
    settle(api)
    rights = RAY_SERVICE.rights_for("status", "endpoint")
    api.granted = grants(*rights.needed, *rights.display)
    assert run("status", "tiny").code == 0
    assert run("endpoint", "tiny").code == 0
    assert api.denied == []
    api.granted -= grants(Right("get", "Gateway", everywhere=True), Right("get", "Ingress"))
    for told in (run("status", "tiny").out, run("endpoint", "tiny").err):
        said = " ".join(told.split())
        assert "Gateway public could not be read: not permitted to get gateways.gateway.networking.k8s.io" in said
        assert "Ingress tiny could not be read: not permitted to get ingresses.networking.k8s.io" in said
        assert "Unknown: Ingress tiny could not be read (ingress/tiny)" in said
    api.granted, api.lists_rules = None, False
    api.answer("POST", "selfsubjectaccessreviews", lambda request: (
        201,
        {"status": {"allowed": request.json()["spec"]["resourceAttributes"]["namespace"] != "infra"}},
    ))  # fmt: skip
    told = run("apply", "-f", deploy, "--offline", "--wait").err
    assert "permissions: not permitted to get gateways.gateway.networking.k8s.io in namespace infra\n" in told
