"""`rbac`: Roles with the permissions that commands need."""

from __future__ import annotations

import click

from rayllm_ctl.cli.options import output_option
from rayllm_ctl.cli.parsing.command import Command

_NAME = "rayllm"


@click.command(cls=Command, short_help="Print the Roles that commands need.")
@click.option(
    "--for",
    "names",
    multiple=True,
    required=True,
    metavar="COMMAND|ROLE",
    help='A command, such as deploy or "batch submit", or a role: viewer, operator, ci. Can be repeated.',
)
@click.option("--name", help="Name of the Role; by default rayllm- and the command or role.")
@click.option("-n", "--namespace", help="Namespace of the services.")
@click.option("--user", "users", multiple=True, help="Bind it to this user. Can be repeated.")
@click.option("--group", "groups", multiple=True, help="Bind it to this group. Can be repeated.")
@click.option(
    "--service-account",
    "accounts",
    multiple=True,
    metavar="NAMESPACE:NAME",
    help="Bind it to this service account. Can be repeated.",
)
@click.option(
    "--needed-only", is_flag=True, help="Leave out permissions that commands need only to show or explain more."
)
@output_option("yaml", "json", "name")
def command(
    names: tuple[str, ...],
    name: str | None,
    namespace: str | None,
    users: tuple[str, ...],
    groups: tuple[str, ...],
    accounts: tuple[str, ...],
    needed_only: bool,
    output: str | None,
) -> None:
    """Print a Role with the rights that commands need in a namespace, and its RoleBinding.

    Permissions outside the namespace (nodes, the operator) are in a ClusterRole: without it commands work, but explain
    less. docs/reference/rbac.md lists the rights of each command.

    \b
      rayllm-ctl rbac --for viewer -n llm --group data-science | kubectl apply -f -
      rayllm-ctl rbac --for ci -n llm --service-account argocd:deployer
    """
    from rayllm_ctl.cli.documents import print_manifests
    from rayllm_ctl.model.text.yaml_text import dump_all
    from rayllm_ctl.workflows.setup.rbac import Subjects, rights_of, roles

    subjects = Subjects(users, groups, tuple(_account(text) for text in accounts))
    role = name or "-".join((_NAME, *(part for one in names for part in one.split())))
    documents = roles(rights_of(names), role, namespace, subjects, needed_only=needed_only)
    if output in (None, "yaml"):
        click.echo(dump_all(documents, sort=False), nl=False)
    else:
        print_manifests(documents, output)
    if not subjects.objects():
        click.echo("no binding was printed: --user, --group and --service-account name its subjects", err=True)


def _account(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition(":")
    if not (namespace and name):
        raise click.BadParameter(f'"{text}" is not NAMESPACE:NAME', param_hint="--service-account")
    return namespace, name
