"""`bench sweep`: variants of a service, deployed, measured and removed one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.api_key_input import read_api_keys
from rayllm_ctl.cli.commands.bench.load_flags import load_options, place_options
from rayllm_ctl.cli.commands.bench.sweep_values import LISTED, Varied, axes_of
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.option_groups import FlagTable
from rayllm_ctl.cli.options import TABLE_FORMATS, facts_options, output_option, spec_options, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.spec_flags import DEPLOY_FLAGS, FLAGS, SERVICE_FLAGS
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.errors import FAILED, INTERRUPTED
from rayllm_ctl.model.spec.fact_sources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.model.events import Event

_MEASURED = ("load.concurrency", "load.input_tokens", "load.output_tokens", "load.ttft", "load.tpot", "load.rate")
"""Fields that `deploy` has flags for, and for which `sweep` uses the flags of the load."""


def _flags() -> FlagTable:
    """The flags of `deploy`; some take several values."""
    return tuple(
        (names, field, {**settings, "type": str, "metavar": "VALUE,..."} if field in LISTED else settings)
        for names, field, settings in (*SERVICE_FLAGS, *DEPLOY_FLAGS)
        if field not in _MEASURED
    )


@click.command(cls=Command, name="sweep", short_help="Deploy, measure and remove variants of a service.")
@spec_options(_flags())
@click.option("--vary", type=Varied(), multiple=True, metavar="FIELD=VALUE,...",
              help="Field of the spec and its values, such as engine.maxNumSeqs=64,256. Can be repeated.")  # fmt: skip
@facts_options
@click.option("--accept-risk", is_flag=True, help="Measure variants with a risky plan, too.")
@click.option(
    "--timeout", type=Duration(), help="How long each variant may take to be ready; from its plan by default."
)
@template_option
@load_options
@place_options
@click.option("--output-dir", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Directory of the results; NAME-sweep by default.")  # fmt: skip
@output_option(*TABLE_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path | None,
    overrides: dict[str, Any],
    vary: tuple[tuple[str, str], ...],
    facts: FactSources,
    accept_risk: bool,
    timeout: float | None,
    template_dir: Path | None,
    output_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
    api_key_file: Path | None,
    **given: Any,
) -> None:
    """Deploy, measure and remove variants of a service, one after another, and show them side by side.

    \b
      rayllm-ctl bench sweep Qwen/Qwen3-32B --gpu H100-80GB --tp 1,2,4 \\
        --requests 50 --concurrency 5
      rayllm-ctl bench sweep -f qwen.yaml --vary engine.maxNumSeqs=64,256 \\
        --vary engine.quantization=null,fp8
      rayllm-ctl bench report qwen3-32b-sweep

    Variants are all combinations of the values of --vary and of the flags that take several (VALUE,...). Each is a
    service of its own, whose name begins with that of the service. The results are written to --output-dir, and the
    same command again measures the missing variants. Ctrl-C removes the running variant and prints the results so
    far. Exits with 1 if a variant or a request failed, but not for a variant that the planner rejects.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, live_view, printer
    from rayllm_ctl.console.bench.progress import watching
    from rayllm_ctl.console.bench.sweep import sweep_lines
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.workflows.bench.flags import Flags
    from rayllm_ctl.workflows.bench.sweep.plan import prepare_sweep
    from rayllm_ctl.workflows.bench.sweep.run import run_sweep
    from rayllm_ctl.workflows.render.types import RenderOptions

    axes, fixed = axes_of(overrides, vary)
    base = resolve_service(file, fixed, kube.namespace, FLAGS)
    load = Flags(
        **given, name=base.name, url=None, models=(), ca_file=None, insecure_skip_tls_verify=False, calibrate=None,
        api_key_file=api_key_file, keys=read_api_keys(api_key_file),
    )  # fmt: skip
    render = RenderOptions(facts=facts, accept_risk=accept_risk, template_dir=template_dir)
    prepared = prepare_sweep(base, axes, load, render, output_dir)
    errors = Printer.for_error(ctx.meta.get("rayllm.color", "auto"))
    outcome = run_sweep(
        prepared, load, timeout, lambda: connect(kube), lambda: _shown(ctx),
        lambda: watching(errors, live_view(ctx)),
    )  # fmt: skip
    if output in MACHINE_FORMATS:
        print_document("BenchSweep", {**outcome.sweep.to_json(), "interrupted": outcome.interrupted}, output)
    else:
        style = printer(ctx)
        for line in sweep_lines(outcome.sweep, style):
            style.line(line)
    if outcome.error is not None:
        raise outcome.error
    if outcome.interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(FAILED if outcome.sweep.failed else 0)


@contextmanager
def _shown(ctx: click.Context) -> Iterator[Callable[[Event], None]]:
    """Draws the events of one phase on standard error."""
    from rayllm_ctl.cli.session import show

    with show(ctx, None) as display:
        yield display.handle
