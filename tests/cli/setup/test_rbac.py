"""`rbac`: Roles with the rights that commands need."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from rayllm_ctl.cli.app import COMMANDS as ALL
from rayllm_ctl.cli.app import group
from rayllm_ctl.errors import UsageError
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.workflows.setup.controller_rights import BESIDE, CLAIM_RIGHTS, DOWNLOAD_JOB_RIGHTS
from rayllm_ctl.workflows.setup.rbac import COMMANDS, ROLES, rights_of
from tests.bases import SPECS, stored

OFFLINE = {"init", "plan", "render", "models", "gpus", "image", "rbac", "explain", "config", "completion", "help"}


def run(*args: str) -> Result:
    return CliRunner().invoke(group, ["rbac", *args])


def documents(*args: str) -> list[dict[str, Any]]:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_a_role_grants_what_a_command_needs_and_no_more() -> None:
    (role,) = documents("--for", "keys", "--needed-only")
    assert role["metadata"] == {"name": "rayllm-keys"}
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayservices"], "verbs": ["get"]},
    ]


def test_hints_for_an_unknown_role_can_be_typed() -> None:
    with pytest.raises(UsageError) as caught:
        rights_of(["admin"])
    assert caught.value.hints == tuple(f"rayllm-ctl rbac --for {role}" for role in ("viewer", "ci", "operator"))


def test_subresources_are_resources_of_their_own() -> None:
    (role,) = documents("--for", "chat", "--needed-only")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["create", "get"]}]


def test_what_lies_outside_the_namespace_is_in_a_cluster_role() -> None:
    found = documents("--for", "batch list", "-n", "llm", "--service-account", "ci:runner", "--name", "lists")
    assert [(item["kind"], item["metadata"]) for item in found] == [
        ("Role", {"name": "lists", "namespace": "llm"}),
        ("RoleBinding", {"name": "lists", "namespace": "llm"}),
        ("ClusterRole", {"name": "lists"}),
        ("ClusterRoleBinding", {"name": "lists-llm"}),
    ]
    wide = found[2]["rules"]
    assert {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]} in wide
    assert not any("rayjobs" in rule["resources"] for rule in wide)
    assert all(
        item["subjects"] == [{"kind": "ServiceAccount", "namespace": "ci", "name": "runner"}] for item in found[1::2]
    )
    assert found[3]["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lists"}


def test_users_and_groups() -> None:
    found = documents("--for", "keys", "-n", "llm", "--user", "jane", "--group", "ml", "--needed-only")
    group_name = "rbac.authorization.k8s.io"
    assert found[1]["subjects"] == [
        {"kind": "User", "apiGroup": group_name, "name": "jane"},
        {"kind": "Group", "apiGroup": group_name, "name": "ml"},
    ]


def test_without_subjects_it_says_that_nothing_is_bound() -> None:
    result = run("--for", "keys", "--needed-only")
    assert "no binding was printed: --user, --group and --service-account" in result.stderr


def test_a_role_of_several_commands_has_the_rights_of_each() -> None:
    (role,) = documents("--for", "keys", "--for", "chat", "--needed-only")
    assert role["metadata"]["name"] == "rayllm-keys-chat"
    assert [rule["resources"] for rule in role["rules"]] == [["secrets"], ["services/proxy"], ["rayservices"]]


def test_an_unknown_name_is_rejected_with_the_nearest_one() -> None:
    result = run("--for", "deplyo")
    assert isinstance(result.exception, UsageError)
    assert result.exception.hints == ('did you mean "deploy"?',)


def test_a_binding_for_the_cluster_needs_a_namespace() -> None:
    result = run("--for", "status", "--user", "jane")
    assert isinstance(result.exception, UsageError)
    assert result.exception.hints == ("-n NAMESPACE",)


def test_a_service_account_is_given_with_its_namespace() -> None:
    result = run("--for", "status", "--service-account", "runner")
    assert result.exit_code == 2
    assert '"runner" is not NAMESPACE:NAME' in result.output


def test_every_command_that_talks_to_a_cluster_has_rights() -> None:
    commands = {name for section in ALL.values() for name in section}
    assert {name.partition(" ")[0] for name in COMMANDS} == (commands | {"controller"}) - OFFLINE


@pytest.mark.parametrize("role", ROLES)
def test_a_role_consists_of_commands(role: str) -> None:
    assert set(ROLES[role]) <= set(COMMANDS)


def test_a_viewer_can_change_nothing() -> None:
    rights = [right for name in ROLES["viewer"] for right in (*COMMANDS[name].needed, *COMMANDS[name].display)]
    assert {right.verb for right in rights} == {"get", "list", "watch"}
    assert not any(right.kind == "Secret" for right in rights)


def test_the_rights_of_deploy_cover_every_kind_that_is_rendered() -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = [*SPECS.glob("*.yaml"), *(path.with_suffix(".yaml") for path in SPECS.glob("*.diff"))]
    kinds = {item["kind"] for file in files for item in yaml.load_all(stored(file), loader) if item}
    stored_models = {right.kind for right in (*CLAIM_RIGHTS, *DOWNLOAD_JOB_RIGHTS)}
    assert kinds - set(WORKLOADS) == set(BESIDE) | stored_models
