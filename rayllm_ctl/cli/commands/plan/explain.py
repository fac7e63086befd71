"""`explain`: the meaning of a field of the spec file."""

from __future__ import annotations

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.spec_flags import FLAGS


@click.command(cls=Command, short_help="Explain a field of the spec file.")
@click.argument("field", default="")
@click.option("--recursive", is_flag=True, help="Print the names and types of all fields below.")
@output_option(*TABLE_FORMATS)
def command(field: str, recursive: bool, output: str | None) -> None:
    """Explain a field of the spec file, as `kubectl explain` does for Kubernetes objects.

    \b
      rayllm-ctl explain                         # the sections
      rayllm-ctl explain spec.replicas           # a section and its fields
      rayllm-ctl explain spec.replicas.max       # one field
      rayllm-ctl explain spec --recursive        # all of them
      rayllm-ctl explain batchjob.spec.input     # the same for a BatchJob
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.console.plan.explain import explanation, explanation_document, tree
    from rayllm_ctl.specfile.explain import explain, spec_kind

    found, kind = explain(field), spec_kind(field)
    flags = FLAGS if kind == "LLMService" else {}
    if output in MACHINE_FORMATS:
        data = explanation_document(found, flags, recursive=recursive)
        print_document("FieldExplanation", data, output, specKind=kind)
        return
    click.echo("\n".join(tree(found) if recursive else explanation(found, flags, kind)).rstrip())
