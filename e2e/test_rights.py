"""Commands with exactly the rights that `rbac` prints, and with each of them removed once. On simulated nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.accounts import Account, Right, account
from e2e.harness import LLAMA, Bench, Target
from e2e.simulated import schedule_on_simulated_nodes

pytestmark = pytest.mark.xdist_group("simulated")

NAME = "allowed"

FLAGS = {
    "wait": ("--for", "ready"), "bundle": ("--output", "{folder}/{number}.tar.gz"),
    "scale": ("--max-replicas", "2", "--no-wait"),
    "suspend": ("--no-wait",), "resume": ("--no-wait",), "restart": ("--no-wait",), "rollback": ("--no-wait",),
}  # fmt: skip
"""What a command takes beside the name of the service."""

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def service(simulated_nodes: Target, shared: Bench) -> Bench:
    """The namespace of a service on simulated nodes."""
    assert shared.target is simulated_nodes
    schedule_on_simulated_nodes(shared)
    shared.run(*LLAMA, "--name", NAME, "--tp", "4", "-n", shared.namespace)
    return shared


@pytest.fixture(scope="module")
def user(service: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with account(service, tmp_path_factory.mktemp("account")) as made:
        yield made


def rights_of(command: str, bench: Bench) -> list[Right]:
    """Those that `rbac --for` prints for a command."""
    printed = bench.run("rbac", "--for", command, "-n", bench.namespace).out
    found = [item for item in yaml.safe_load_all(printed) if item and item["kind"] in ("Role", "ClusterRole")]
    return [
        Right(item["kind"], group, resource, verb)
        for item in found for rule in item["rules"]
        for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    ]  # fmt: skip


def arguments(command: str, bench: Bench, folder: Path) -> list[str]:
    number = next(_NUMBERS)
    more = (flag.format(folder=folder, number=number) for flag in FLAGS.get(command, ()))
    return [command, NAME, "-n", bench.namespace, *more]


SLOW = pytest.mark.slow


# Commands that change nothing, and can be run as often as there are rights. Simulated replicas have no logs.
@pytest.mark.parametrize(
    "command",
    [
        "status",
        pytest.param("wait", marks=SLOW),
        "events",
        pytest.param("history", marks=SLOW),
        pytest.param("endpoint", marks=SLOW),
        pytest.param("serve-config", marks=SLOW),
        pytest.param("bundle", marks=SLOW),
    ],
)
def test_a_command_runs_with_its_rights_and_names_the_one_that_is_missing(
    service: Bench, user: Account, tmp_path: Path, command: str
) -> None:
    rights = rights_of(command, service)
    user.grant(rights)
    allowed = user.run(*arguments(command, service, tmp_path), code=None)
    assert allowed.code == 0, str(allowed)
    # Whoever may read Ray's token can run code in the pods, so roles to look at services do not grant it.
    missing = set(re.findall(r"not permitted to ([^\n;,]+)", allowed.out + allowed.err))
    assert missing <= {"get secrets"}, str(allowed)
    silent = []
    for right in rights:
        user.grant([one for one in rights if one != right])
        refused = user.run(*arguments(command, service, tmp_path), code=None)
        said = refused.out + refused.err
        assert refused.code in (0, 5), f"without {right}: {refused}"
        if refused.code == 5:
            assert str(right) in said, f"without {right}: {refused}"
            assert user.user in said, f"without {right}: {refused}"
        elif str(right) not in said:
            silent.append(str(right))
    print(f"\nrights without which {command} says nothing: {silent}")


def test_a_change_runs_with_exactly_its_rights(service: Bench, user: Account, tmp_path: Path) -> None:
    for command in ("scale", "rollback", "suspend", "resume", "restart", "delete"):
        user.grant(rights_of(command, service))
        done = user.run(*arguments(command, service, tmp_path))
        assert "not permitted" not in done.err, str(done)
