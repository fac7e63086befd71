"""`version`: versions of rayllm-ctl, the cluster, KubeRay and the code in a service's pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError, UserError

if TYPE_CHECKING:
    from rayllm_ctl.workflows.rollout.shipped_code import Shipped


@click.command(cls=Command, short_help="Print the versions of rayllm-ctl, the cluster and KubeRay.")
@click.argument("name", required=False)
@click.option("--client", is_flag=True, help="Print only the version of rayllm-ctl; do not contact the cluster.")
@output_option("json", "yaml")
@kube_options
def command(name: str | None, client: bool, output: str | None, kube: KubeFlags) -> None:
    """Print the versions of rayllm-ctl, of the cluster's API server and of the KubeRay operator in it.

    With NAME also the release of rayllm-ctl whose code runs in the pods of that service.

    \b
      rayllm-ctl version
      rayllm-ctl version --client
      rayllm-ctl version qwen3-32b -n llm
    """
    from rayllm_ctl.cli.documents import print_document
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.model.text.json_form import to_json
    from rayllm_ctl.workflows.setup.versions import tool_versions

    if client and name:
        raise UsageError("--client does not contact the cluster and cannot be combined with NAME")
    own = tool_versions(None)
    if output is None:
        click.echo(f"rayllm-ctl  {own.rayllm_ctl}")
    try:
        cluster = None if client else connect(kube)
        found = own if cluster is None else tool_versions(cluster)
    except UserError as error:
        if output:
            print_document("Version", own, output)
        raise UserError(
            f"the versions of the cluster and of KubeRay are unknown: {error.message}",
            hint=(*error.hints, "rayllm-ctl version --client    # does not contact the cluster"),
            exit_code=error.exit_code,
        ) from error
    code: list[Shipped] | None = None
    if cluster is not None and name:
        from rayllm_ctl.workflows.rollout.shipped_code import shipped

        code = shipped(cluster, name, kube.namespace or cluster.namespace)
    if output:
        print_document("Version", {**to_json(found), **({} if code is None else {"code": code})}, output)
        return
    if not client:
        click.echo(f"Kubernetes  {found.kubernetes or 'unknown'}")
        click.echo(f"KubeRay     {found.kuberay or 'not found'} (tested with {', '.join(found.tested_kuberay)})")
    if code is not None:
        click.echo("\n".join(map(_line, code)) or f"code        {name} does not mount code of rayllm-ctl")


def _line(one: Shipped) -> str:
    if one.problem:
        return f"code        {one.part}: unknown ({one.config_map}): {one.problem}"
    release = f"rayllm-ctl {one.version}" if one.version else "an earlier rayllm-ctl"
    same = (
        "the same as in this rayllm-ctl"
        if one.current
        else "different from this rayllm-ctl; the next deploy replaces it"
    )
    return f"code        {one.part}: {release}, {one.digest[:8]} ({one.config_map}), {same}"
