"""`models`: the models of the catalog."""

from __future__ import annotations

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import ModelName


@click.command(cls=Command, name="models", short_help="List the known models, or show one.")
@click.argument("name", required=False, default="", type=ModelName())
@output_option(*TABLE_FORMATS)
def command(name: str, output: str | None) -> None:
    """List the models that can be planned offline, or show one.

    \b
      rayllm-ctl models                   # all
      rayllm-ctl models qwen3             # those with "qwen3" in their name
      rayllm-ctl models Qwen/Qwen3-32B

    PARAMETERS in brackets are those active per token. Any other model of the Hugging Face Hub can be
    planned and deployed as well.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document, print_list
    from rayllm_ctl.console.plan.catalog import model_lines, model_table
    from rayllm_ctl.workflows.plan.catalog import list_models, show_model, unknown_model

    one = show_model(name) if name else None
    if one is not None:
        if output in MACHINE_FORMATS:
            print_document("Model", one, output)
        else:
            click.echo("\n".join(model_lines(one)))
        return
    found = list_models(name)
    if not found:
        raise unknown_model(name)
    if output in MACHINE_FORMATS:
        print_list("ModelList", found, output)
    else:
        click.echo("\n".join(model_table(found, wide=output == "wide")))
