"""The same failure has the same wording and exit code in every command that takes the name of a service.

What differs, and why, stands in the tables: a command that follows a service waits for an API server that is away, and
one that asks the service itself, or its history alone, needs no right to its object.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from rayllm_ctl.cli.app import COMMANDS
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.workload import Right
from rayllm_ctl.workflows.access.api_keys import KEY_RIGHTS
from tests.cli.conftest import Deploy, Result, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import DEPLOY, TINY
from tests.cluster.fakeapi import FakeAPI, status
from tests.cluster.fakehttp import kubeconfig

NAMED: dict[str, tuple[str, ...]] = {
    "status": ("status", "tiny"),
    "watch": ("watch", "tiny", "--timeout", "300ms"),
    "wait": ("wait", "tiny", "--timeout", "300ms"),
    "top": ("top", "tiny"),
    "events": ("events", "tiny"),
    "events -f": ("events", "tiny", "-f"),
    "logs": ("logs", "tiny"),
    "logs -f": ("logs", "tiny", "-f"),
    "bundle": ("bundle", "tiny", "-o", "{folder}/bundle"),
    "chat": ("chat", "tiny", "Why?"),
    "endpoint": ("endpoint", "tiny"),
    "port-forward": ("port-forward", "tiny"),
    "keys create": ("keys", "create", "tiny", "--key-name", "alice"),
    "keys list": ("keys", "list", "tiny"),
    "keys revoke": ("keys", "revoke", "tiny", "--key-name", "alice"),
    "serve-config": ("serve-config", "tiny"),
    "dashboard": ("dashboard", "tiny"),
    "scale": ("scale", "tiny", "--replicas", "2"),
    "restart": ("restart", "tiny"),
    "suspend": ("suspend", "tiny"),
    "resume": ("resume", "tiny"),
    "history": ("history", "tiny"),
    "rollback": ("rollback", "tiny"),
    "delete": ("delete", "tiny", "--no-wait"),
    "check --security": ("check", "--security", "tiny"),
    "bench": ("bench", "tiny", "--duration", "1s"),
}
"""Commands about a service that exists."""

APPLYING: dict[str, tuple[str, ...]] = {
    "deploy": DEPLOY,
    "deploy --dry-run=server": (*DEPLOY, "--dry-run=server"),
    "diff": ("diff", *TINY),
}
"""Commands that need none."""

PATIENT = {"watch", "wait"}
"""Commands that continue while the API server is away, and say so: `wait` until its time is up."""

ASKS_THE_SERVICE = {"chat", "endpoint", "bench"}
"""Commands that ask the service through the API server's proxy, and for its object only where that fails."""

FIRST = {
    **dict.fromkeys(ASKS_THE_SERVICE, "reach service llm/tiny-serve-svc"),
    **dict.fromkeys(("history", "rollback"), "list controllerrevisions in namespace llm"),  # they outlive the service
    **dict.fromkeys(("deploy", "deploy --dry-run=server"), "get RayCluster llm/tiny"),  # of the same name, beside it
    "events -f": "create selfsubjectaccessreviews",
}
"""What commands ask first, where that is not to get the RayService."""

NOT_FOUND = "✗ there is no service tiny in namespace llm"

Situation = Callable[[FakeAPI, Path, pytest.MonkeyPatch], None]


def every(api: FakeAPI, code: int, message: str, reason: str) -> None:
    for method in ("GET", "POST", "PATCH", "DELETE"):
        api.answer(method, ".", status(code, message, reason))


def no_kuberay(api: FakeAPI, _: Path, __: pytest.MonkeyPatch) -> None:
    api.installed -= {"RayService", "RayCluster", "RayJob"}


def rejected(api: FakeAPI, _: Path, __: pytest.MonkeyPatch) -> None:
    every(api, 401, "Unauthorized", "Unauthorized")


def unreachable(_: FakeAPI, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    patch.setenv("KUBECONFIG", str(kubeconfig(folder / "unreachable", address, token="t")))


def silent(api: FakeAPI, _: Path, __: pytest.MonkeyPatch) -> None:
    for method in ("GET", "POST", "PATCH", "DELETE"):
        api.hang(method, ".")


def without_kubeconfig(_: FakeAPI, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("KUBECONFIG", str(folder / "none"))


def said(result: Result, folder: Path) -> tuple[int, str]:
    """Exit code and error, or what is said in its place; without hints, some of which are of one command."""
    text = result.err.partition("\n\n")[0].strip().replace(str(folder), "FOLDER")
    return result.code, text[max(text.find("✗"), 0) :]


def command(arguments: tuple[str, ...], folder: Path) -> list[str]:
    return [argument.format(folder=folder) for argument in arguments]


def test_every_command_about_a_service_is_in_the_table() -> None:
    listed = {arguments[0] for arguments in (*NAMED.values(), *APPLYING.values())}
    elsewhere = {"apply", "init", "plan", "render", "batch", "fetch"}  # of files, or of jobs
    assert listed == set(COMMANDS["Operate services"]) | set(COMMANDS["Deploy models"]) - elsewhere | {"bench"}


def test_no_such_service(run: Run, tmp_path: Path) -> None:
    found = {name: said(run(*command(arguments, tmp_path)), tmp_path) for name, arguments in NAMED.items()}
    # A state is data.
    assert found.pop("status") == (1, "")
    assert found.pop("watch") == (0, "hh:mm:ss state       NotFound: there is no service tiny in namespace llm")
    assert found == dict.fromkeys(found, (1, NOT_FOUND))
    assert run("status", "tiny").out == "tiny  NotFound  there is no service tiny in namespace llm\n"


def test_no_such_namespace(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    api.namespaces.discard("llm")
    all_of_them = {name: value for name, value in (NAMED | APPLYING).items() if name != "diff"}  # it may be new
    found = {name: said(run(*command(arguments, tmp_path)), tmp_path) for name, arguments in all_of_them.items()}
    assert found.pop("status") == (1, "")
    assert found.pop("watch") == (0, "hh:mm:ss state       NotFound: namespace llm does not exist")
    assert {text.rpartition("✗ ")[2] for _, text in found.values()} == {"namespace llm does not exist"}
    assert {code for code, _ in found.values()} == {1}
    assert run("status", "tiny").out == "tiny  NotFound  namespace llm does not exist\n"


@pytest.mark.parametrize(
    ("situation", "code", "message"),
    [
        (no_kuberay, 1, "✗ KubeRay is not installed in this cluster"),
        (rejected, 5, '✗ the API server http://SERVER rejected the credentials of user "alice" (context "test")'),
        (without_kubeconfig, 2, "✗ kubeconfig FOLDER/none does not exist (from KUBECONFIG)"),
    ],
)
def test_what_waiting_does_not_mend(
    run: Run,
    api: FakeAPI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    situation: Situation,
    code: int,
    message: str,
) -> None:
    situation(api, tmp_path, monkeypatch)
    for name, arguments in (NAMED | APPLYING).items():
        expected = (7 if name == "diff" and code == 1 else code, message)
        assert said(run(*command(arguments, tmp_path)), tmp_path) == expected, name


def assert_reported(name: str, result: Result, message: str, folder: Path) -> None:
    """That the API server is out of order is the error; commands that wait note it, and continue."""
    if name in PATIENT:
        assert result.code == 5, name
        assert f"note        {message}; retrying" in result.err, name
    else:
        assert said(result, folder) == (5, f"✗ {message}"), name


@pytest.mark.parametrize(
    ("situation", "reason"),
    [(unreachable, "connection refused"), (silent, "no answer within the time limit")],
)
@pytest.mark.connections
def test_an_api_server_that_does_not_answer(
    run: Run, api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, situation: Situation, reason: str
) -> None:
    situation(api, tmp_path, monkeypatch)
    message = f"the API server http://SERVER cannot be reached: {reason}"
    limited = () if situation is unreachable else ("--request-timeout", "10ms")
    for name, arguments in (NAMED | APPLYING).items():
        if name == "bench" and limited:
            continue  # of its load test: --request-timeout is that of the requests it sends
        assert_reported(name, run(*command(arguments, tmp_path), *limited), message, tmp_path)


def test_an_api_server_that_fails(run: Run, deploy: Deploy, api: FakeAPI, tmp_path: Path) -> None:
    deploy(*TINY)
    every(api, 500, "etcdserver: request timed out", "InternalError")
    for name, arguments in (NAMED | APPLYING).items():
        asked = FIRST.get(name, "get RayService llm/tiny")
        message = f"the API server cannot {asked} now: etcdserver: request timed out"
        assert_reported(name, run(*command(arguments, tmp_path)), message, tmp_path)


def test_no_right_to_read_the_service(run: Run, deploy: Deploy, api: FakeAPI, tmp_path: Path) -> None:
    deploy(*TINY)
    rights = [*RAY_SERVICE.rights.values(), KEY_RIGHTS]
    every_right = grants(*(right for one in rights for right in (*one.needed, *one.display)))
    api.granted = every_right - grants(Right("get", "RayService"))
    message = '✗ user "alice@example.com" is not permitted to get rayservices.ray.io in namespace llm'
    for name, arguments in (NAMED | APPLYING).items():
        if name in ASKS_THE_SERVICE | {"history", "rollback"}:
            continue
        found = said(run(*command(arguments, tmp_path)), tmp_path)
        assert found == (5, message), name
