"""`logs`: the logs of a service's pods."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError

_TAIL = 200
_ALL = -1


class Lines(click.ParamType[int]):
    """A number of lines, or -1 for all."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = 0
        if number < 1 and number != _ALL:
            self.fail(f'"{value}" is neither a number of lines nor -1, which means all', param, ctx)
        return number


@click.command(cls=Command, short_help="Print the logs of a service.")
@click.argument("name")
@click.option("--replica", metavar="POD", help="The log of one pod.")
@click.option("--engine", is_flag=True, help="The log of the engines (vLLM).")
@click.option("--head", is_flag=True, help="The log of the head.")
@click.option("--operator", is_flag=True, help="The log of the KubeRay operator.")
@click.option("--download", is_flag=True, help="The log of the Job that downloads the model.")
@click.option(
    "--tail", type=Lines(), metavar="N", help=f"Lines from the end of each log, -1 for all; {_TAIL}, all with --grep."
)
@click.option("-f", "--follow", is_flag=True, help="Stream new lines until Ctrl-C or the service is deleted.")
@click.option("--grep", metavar="TEXT", default="", help="Only lines that contain TEXT.")
@click.option("-p", "--previous", is_flag=True, help="The log of the previous run of the containers.")
@kube_options
def command(
    name: str,
    replica: str | None,
    engine: bool,
    head: bool,
    operator: bool,
    download: bool,
    tail: int | None,
    follow: bool,
    grep: str,
    previous: bool,
    kube: KubeFlags,
) -> None:
    """Print the logs of the replicas of service NAME. Lines start with the pod if there are several, or with -f.

    Ray keeps the logs of replicas and engines in files; they are read through its dashboard. A service in mode
    raycluster has the log of vLLM's server.

    \b
      rayllm-ctl logs qwen3-32b -f
      rayllm-ctl logs qwen3-32b --engine --grep "KV cache"
      rayllm-ctl logs qwen3-32b --head --previous
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.observe.logs.lines import LogLine
    from rayllm_ctl.workflows.observe.logs.read import log_lines
    from rayllm_ctl.workflows.observe.logs.select import LogPart

    if sum((engine, head, operator, download, replica is not None)) > 1:
        raise click.UsageError("--replica, --engine, --head, --operator and --download exclude each other")
    if previous and engine:
        raise UsageError(
            "--previous is about containers, and the engine runs inside one", hint=f"rayllm-ctl logs {name} --previous"
        )
    flags: dict[LogPart, bool] = {"engine": engine, "head": head, "operator": operator, "download": download}
    part: LogPart = next((part for part, given in flags.items() if given), "replicas")
    lines = tail or (_ALL if grep and not follow else _TAIL)
    cluster = connect(kube)
    found = log_lines(
        cluster, name, kube.namespace or cluster.namespace, part, pod=replica, tail=None if lines == _ALL else lines,
        follow=follow, previous=previous, grep=grep,
    )  # fmt: skip
    for item in found:
        if isinstance(item, LogLine):
            click.echo(f"[{item.source}] {item.text}" if item.source else item.text)
        else:
            click.echo(item.message, err=True)
