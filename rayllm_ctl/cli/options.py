"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.option_groups import FlagTable, gathered
from rayllm_ctl.cli.settings.taken import spec_values
from rayllm_ctl.cli.spec_flags import DEPLOY_FLAGS, SERVICE_FLAGS
from rayllm_ctl.cli.values import AUTO, KubeRayVersion, ModelName, PrintedFormat
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.spec.fact_sources import FactSources

F = TypeVar("F", bound=Callable[..., Any])


RESULT_FORMATS = ("json", "yaml", "name")
"""Formats of commands that change something: without -o, only the progress is shown."""
TABLE_FORMATS = ("table", "wide", "json", "yaml")
"""Formats of commands that show something. wide: with further columns, where a table has some."""
NAMED_TABLE_FORMATS = (*TABLE_FORMATS, "name")
"""Formats of commands that show objects of the cluster."""
STREAM_FORMATS = ("json", "yaml")
"""Formats of commands that print a document for each change."""


def output_option(*formats: str) -> Callable[[F], F]:
    """-o/--output with the formats that a command has; None for what it prints without -o, which is also `table`."""

    def chosen(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        return None if value == "table" else value

    help_text = "Output format; table by default." if "table" in formats else "Output format."
    return click.option("-o", "--output", type=PrintedFormat(formats), callback=chosen, help=help_text)


MODEL_ARGUMENT = "model_argument"
"""The parameter for the model without a flag: plan Qwen/Qwen3-32B."""


def service_options(deploy: bool = True, several: bool = False) -> Callable[[F], F]:
    """The flags of an LLMService and -f/--file, handed over as `file: Path | None` and `overrides: dict[str, Any]`.

    `overrides` maps a field's dotted path to the value of a flag that was given. deploy=False leaves out what only
    pods need. several: -f can be repeated, and is handed over as `files: tuple[Path, ...]`.
    """
    return spec_options(SERVICE_FLAGS + (DEPLOY_FLAGS if deploy else ()), several)


def spec_options(table: FlagTable, several: bool = False) -> Callable[[F], F]:
    """The flags of a table and -f/--file, handed over as service_options does, and the model as an argument."""

    fields = {declaration[-1].lstrip("-").replace("-", "_"): field for declaration, field, _ in table}
    fields[MODEL_ARGUMENT] = "model.id"

    def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
        argument, flag = values[MODEL_ARGUMENT], values["model"]
        if argument is not None and flag is not None:
            raise UsageError(f"the model is given twice: {argument} and --model {flag}", hint=f"remove --model {flag}")
        given = spec_values(values, fields)
        return {field: None if value is AUTO else value for field, value in given.items()}

    file = click.option(
        "-f",
        "--file",
        "files" if several else "file",
        type=click.Path(path_type=Path, dir_okay=False),
        multiple=several,
        help="Spec file, - for standard input; flags take precedence." + (" Can be repeated." if several else ""),
    )
    argument = click.argument(MODEL_ARGUMENT, metavar="[MODEL]", required=False, type=ModelName())
    options = [argument, file, *(click.option(*declaration, **settings) for declaration, _, settings in table)]
    return lambda function: gathered(function, options, tuple(fields), "overrides", overrides)


def template_option(function: F) -> F:
    """--template-dir: the user's own templates."""
    return click.option(
        "--template-dir",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="Directory with templates of your own, which replace or add to those of rayllm-ctl.",
    )(function)


def kuberay_option(note: str = "") -> Callable[[F], F]:
    """--kuberay-version: the version that manifests are checked for without a cluster."""
    help_text = f"KubeRay version that the manifests are checked for{note}; {DEFAULT} by default."
    option: Callable[[F], F] = click.option("--kuberay-version", "kuberay", type=KubeRayVersion(), help=help_text)
    return option


def facts_options(function: F) -> F:
    """--model-config, --offline, --from-hub, --prices: handed over as `facts: FactSources`."""
    options = (
        click.option(
            "--model-config",
            type=click.Path(path_type=Path, allow_dash=True),
            help="The model's config.json (- for standard input) or its directory; for several models, a directory "
            "with one for each.",
        ),
        click.option("--offline", is_flag=True, help="Do not use the network to look up the model."),
        click.option(
            "--from-hub",
            is_flag=True,
            help="Look the model up in the Hugging Face cache or Hub, also if the catalog has it.",
        ),
        click.option("--prices", type=click.Path(path_type=Path, dir_okay=False), help="YAML file with GPU prices."),
    )
    return gathered(
        function,
        options,
        ("model_config", "offline", "from_hub", "prices"),
        "facts",
        lambda values: FactSources(**values),
    )
