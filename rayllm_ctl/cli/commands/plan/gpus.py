"""`gpus`: the GPUs of the catalog."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, name="gpus", short_help="List the known GPUs, or show one.")
@click.argument("name", required=False, default="")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="YAML file with GPU prices.")
@output_option(*TABLE_FORMATS)
def command(name: str, prices: Path | None, output: str | None) -> None:
    """List the known kinds of GPU, or show one with its node labels, machines and prices.

    \b
      rayllm-ctl gpus             # all
      rayllm-ctl gpus hopper      # those with "hopper" in name or architecture
      rayllm-ctl gpus h100        # one, by its name or an alias

    MEMORY is what torch reports, TB/S its bandwidth, BF16 and FP8 are dense TFLOPS, NODE is the most GPUs of one
    machine.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document, print_list
    from rayllm_ctl.console.plan.catalog import gpu_lines, gpu_table
    from rayllm_ctl.workflows.plan.catalog import is_gpu, list_gpus, show_gpu

    found = [] if name and is_gpu(name) else list_gpus(name, prices)
    if not found:
        gpu = show_gpu(name, prices)
        if output in MACHINE_FORMATS:
            print_document("GPU", gpu, output)
        else:
            click.echo("\n".join(gpu_lines(gpu)))
    elif output in MACHINE_FORMATS:
        print_list("GPUList", found, output)
    else:
        click.echo("\n".join(gpu_table(found, wide=output == "wide")))
        if any(gpu.price_per_hour for gpu in found):
            click.echo("USD/H is per GPU; `rayllm-ctl gpus NAME` shows the source and date of a price.", err=True)
