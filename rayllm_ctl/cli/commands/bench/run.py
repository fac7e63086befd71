"""`bench run`: load on one service, and its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.api_key_input import read_api_keys
from rayllm_ctl.cli.commands.bench.load_flags import load_options, place_options
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options, reject_cluster_flags
from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import FAILED, INTERRUPTED


@click.command(cls=Command, name="run", short_help="Send load to a service and measure the answers.")
@click.argument("name", required=False)
@click.option("--url", help="Address of any OpenAI-compatible server, with /v1, in place of NAME.")
@click.option("--model", "models", multiple=True, help="Model to ask; the first by default. Several take turns.")
@load_options
@click.option("--ca-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Certificates to trust with an https --url.")  # fmt: skip
@click.option("--insecure-skip-tls-verify", is_flag=True, help="Trust any certificate of an https --url.")
@place_options
@click.option("--calibrate", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="File for the ratio of measured to planned speed, for --calibration.")  # fmt: skip
@click.option("--startup-plan", "startup_plans", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
              help="vLLM's start-up plans, of one replica: their KV cache is stored with --calibrate. Repeatable, or "
                   "a folder.")  # fmt: skip
@output_option(*TABLE_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context, /, kube: KubeFlags, output: str | None, api_key_file: Path | None, **given: Any
) -> None:
    """Send load to service NAME, or to --url, and measure the answers.

    \b
      rayllm-ctl bench qwen3-32b --concurrency 1,4,16
      rayllm-ctl bench qwen3-32b --rate 4 --duration 2m --slo ttft=500ms,tpot=50ms
      rayllm-ctl bench qwen3-32b --find-max --slo ttft=500ms,tpot=50ms
      rayllm-ctl bench --url http://127.0.0.1:8000/v1 --requests 50 --concurrency 5

    The load comes from a Job next to the service, which is deleted at the end; --local sends it from this machine,
    through the API server. Ctrl-C ends the test and prints the results so far. Exits with 1 if a request failed or no
    tested rate met the limits.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.session import connect, live_view, printer
    from rayllm_ctl.console.bench.progress import watching
    from rayllm_ctl.console.bench.results import result_lines
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.workflows.bench.calibrate import store
    from rayllm_ctl.workflows.bench.flags import Flags
    from rayllm_ctl.workflows.bench.run import measure, rejected_key_hint

    if given["url"] is not None:
        reject_cluster_flags("--url")
    flags = Flags(**given, api_key_file=api_key_file, keys=read_api_keys(api_key_file))
    errors = Printer.for_error(ctx.meta.get("rayllm.color", "auto"))
    with watching(errors, live_view(ctx)) as show:
        results = measure(flags, lambda: connect(kube), kube.namespace, show)
    if output in MACHINE_FORMATS:
        print_document("BenchResult", results.to_json(), output)
    else:
        style = printer(ctx)
        for line in result_lines(results, style):
            style.line(line)
    if hint := rejected_key_hint(flags, results):
        click.echo(f"\nhint: {hint}", err=True)
    if flags.calibrate:
        click.echo(f"{flags.calibrate}: {store(flags.calibrate, results)}", err=True)
    if results.interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(FAILED if results.failed else 0)
