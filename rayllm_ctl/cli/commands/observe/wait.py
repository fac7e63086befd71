"""`wait`: until a condition holds for a service."""

from __future__ import annotations

import re
from typing import Any

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration

_FORMS = ("ready", "healthy", "deleted")


class ConditionText(click.ParamType[str]):
    """ready, healthy, deleted or replicas=N; its value is the text."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text not in _FORMS and not re.fullmatch(r"replicas=\d{1,6}", text):
            self.fail(f'"{text}" is not one of {", ".join(_FORMS)}, replicas=N', param, ctx)
        return text


@click.command(cls=Command, short_help="Wait until a service is ready, healthy, scaled or deleted.")
@click.argument("name")
@click.option(
    "--for",
    "wanted",
    type=ConditionText(),
    metavar="CONDITION",
    default="ready",
    show_default=True,
    help="ready, healthy, deleted or replicas=N.",
)
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="How long to wait.")
@output_option("json", "yaml")
@kube_options
@click.pass_context
def command(
    ctx: click.Context, name: str, wanted: str, timeout: float, output: str | None, kube: KubeFlags
) -> None:  # fmt: skip
    """Wait until a condition holds for service NAME.

    \b
      ready       it serves and nothing is in progress: what deploy waits for
      healthy     ready, Ray Serve says that all wanted replicas run, and
                  addresses outside the cluster can be used
      deleted     its objects and pods are gone
      replicas=N  at least N replicas serve; with 0: it is scaled to zero

    Exits with 0 when it holds, with 3 after --timeout, and with 1 at once when waiting cannot help.

    \b
      rayllm-ctl wait qwen3-32b -n llm --timeout 20m
      rayllm-ctl wait qwen3-32b -n llm --for replicas=2
    """
    from rayllm_ctl.cli.documents import print_document
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.model.events import Noted
    from rayllm_ctl.model.kube.quantities import format_duration
    from rayllm_ctl.workflows.observe import conditions as waitfor

    conditions = {"ready": waitfor.READY, "healthy": waitfor.HEALTHY, "deleted": waitfor.DELETED}
    condition = conditions.get(wanted) or waitfor.replicas(int(wanted.partition("=")[2]))
    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    with show(ctx, None) as display:
        for event in waitfor.wait_for(cluster, name, namespace, condition, timeout):
            if not isinstance(event, waitfor.Met):
                display.handle(event)
                continue
            display.handle(Noted(f"{name} {condition.met} after {format_duration(event.elapsed)}"))
            if output:
                data = {"name": name, "namespace": namespace, "condition": wanted, "elapsedSeconds": event.elapsed}
                print_document("WaitResult", {**data, "health": event.health}, output)
