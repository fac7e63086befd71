"""Commands with exactly the rights that `rbac` prints, and with each of them removed once. On simulated nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import LLAMA, Bench

NAME = "allowed"
RBAC = "rbac.authorization.k8s.io"

READING = ("status", "wait", "events", "history", "endpoint", "serve-config", "bundle")
"""Commands that change nothing, and can be run as often as there are rights. Simulated replicas have no logs."""

FLAGS = {
    "wait": ("--for", "ready"), "bundle": ("--output", "{folder}/{number}.tar.gz"),
    "scale": ("--max", "2", "--no-wait"),
    "suspend": ("--no-wait",), "resume": ("--no-wait",), "restart": ("--no-wait",), "rollback": ("--no-wait",),
}  # fmt: skip
"""What a command takes beside the name of the service."""

_NUMBERS = itertools.count()

Right = tuple[str, str, str, str]
"""Role or ClusterRole, API group, resource, verb."""


class Account:
    """A service account with the rights that it was granted last."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.admin, self.name = bench, f"account-{bench.namespace}"
        bench.kubectl("create", "serviceaccount", "account", "-n", bench.namespace)
        token = bench.kubectl("create", "token", "account", "-n", bench.namespace).strip()
        self.user = f"system:serviceaccount:{bench.namespace}:account"
        self.bench = bench.with_token(token, folder)

    def rights(self, command: str) -> list[Right]:
        """Those that `rbac --for` prints for a command."""
        printed = self.admin.run("rbac", "--for", command, "-n", self.admin.namespace).out
        found = [item for item in yaml.safe_load_all(printed) if item and item["kind"] in ("Role", "ClusterRole")]
        return [
            (item["kind"], group, resource, verb)
            for item in found for rule in item["rules"]
            for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
        ]  # fmt: skip

    def grant(self, rights: list[Right]) -> None:
        """Make `rights` all that the account may do."""
        subject = {"kind": "ServiceAccount", "name": "account", "namespace": self.admin.namespace}
        made: list[dict[str, Any]] = []
        for kind in ("Role", "ClusterRole"):
            rules = [
                {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                for known, group, resource, verb in rights if known == kind
            ]  # fmt: skip
            where = {"namespace": self.admin.namespace} if kind == "Role" else {}
            role = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": self.name, **where}}
            made.append({**role, "kind": kind, "rules": rules})
            reference = {"apiGroup": RBAC, "kind": kind, "name": self.name}
            made.append({**role, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]})
        self.admin.kubectl("apply", "-f", "-", input_text=yaml.safe_dump_all(made))

    def close(self) -> None:
        for kind in ("clusterrolebinding", "clusterrole"):
            self.admin.kubectl("delete", kind, self.name, "--ignore-not-found")


@pytest.fixture
def account(simulated: Bench, tmp_path: Path) -> Iterator[Account]:
    made = Account(simulated, tmp_path)
    yield made
    made.close()


def arguments(command: str, bench: Bench, folder: Path) -> list[str]:
    number = next(_NUMBERS)
    more = (flag.format(folder=folder, number=number) for flag in FLAGS.get(command, ()))
    return [command, NAME, "-n", bench.namespace, *more]


def test_each_command_runs_with_its_rights_and_names_the_one_that_is_missing(
    simulated: Bench, account: Account, tmp_path: Path
) -> None:
    simulated.run(*LLAMA, "--name", NAME, "--tp", "4", "-n", simulated.namespace)
    silent: dict[str, list[str]] = {}
    for command in READING:
        rights = account.rights(command)
        account.grant(rights)
        allowed = account.bench.run(*arguments(command, simulated, tmp_path), code=None)
        assert allowed.code == 0, str(allowed)
        # Whoever may read Ray's token can run code in the pods, so roles to look at services do not grant it.
        missing = set(re.findall(r"not permitted to ([^\n;,]+)", allowed.out + allowed.err))
        assert missing <= {"get secrets"}, str(allowed)
        for right in rights:
            account.grant([one for one in rights if one != right])
            _, group, resource, verb = right
            named = f"{verb} {resource.partition('/')[0]}{'.' if group else ''}{group}"
            named += f"/{resource.partition('/')[2]}" if "/" in resource else ""
            refused = account.bench.run(*arguments(command, simulated, tmp_path), code=None)
            said = refused.out + refused.err
            assert refused.code in (0, 5), f"without {named}: {refused}"
            if refused.code == 5:
                assert named in said, f"without {named}: {refused}"
                assert account.user in said, f"without {named}: {refused}"
            elif named not in said:
                silent.setdefault(command, []).append(named)
    print(f"\nrights without which a command says nothing: {silent}")


@pytest.mark.parametrize("command", ["scale", "restart", "suspend", "resume", "rollback", "delete"])
def test_a_change_runs_with_exactly_its_rights(
    simulated: Bench, account: Account, tmp_path: Path, command: str
) -> None:
    deploy = (*LLAMA, "--name", NAME, "--tp", "4", "-n", simulated.namespace, "--no-wait")
    simulated.run(*deploy)
    if command == "rollback":
        simulated.run(*deploy, "--max-replicas", "2")
    account.grant(account.rights(command))
    done = account.bench.run(*arguments(command, simulated, tmp_path))
    assert "not permitted" not in done.err, str(done)
