"""`plan`: on which GPUs a model fits, how large, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.options import FLAGS, Duration, facts_options, output_option, service_options
from rayllm_ctl.errors import FAILED, OK

F = TypeVar("F", bound=Callable[..., Any])

_LOAD_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--objective", {"type": click.Choice(["cost", "throughput", "latency"]), "help": "What the choice is best at."}),
    ("--concurrency", {"type": click.IntRange(min=1), "metavar": "N", "help": "Requests in flight at once."}),
    ("--input-tokens", {"type": click.IntRange(min=1), "metavar": "N", "help": "Average length of a prompt."}),
    ("--output-tokens", {"type": click.IntRange(min=1), "metavar": "N", "help": "Average length of an answer."}),
    ("--ttft", {"type": Duration(), "help": "Limit on the time to the first token (500ms)."}),
    ("--tpot", {"type": Duration(), "help": "Limit on the time per output token (40ms)."}),
    ("--rate", {"type": click.FloatRange(min=0, min_open=True), "metavar": "N", "help": "Requests per second."}),
)  # fmt: skip


def load_options(function: F) -> F:
    """The flags of the load, handed over as `load: dict[str, Any]` (field of the service's load -> value)."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        names = [flag[2:].replace("-", "_") for flag, _ in _LOAD_FLAGS]
        given = {f"load.{name}": value for name in names if (value := kwargs.pop(name)) is not None}
        return function(*args, load=given, **kwargs)

    wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
    wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = wrapper
    for flag, settings in reversed(_LOAD_FLAGS):
        decorated = click.option(flag, **settings)(decorated)
    result: F = decorated
    return result


@click.command(name="plan", short_help="Say on which GPUs a model fits, how large, and why.")
@service_options()
@load_options
@facts_options
@click.option("--explain", is_flag=True, help="Show every candidate and every formula.")
@output_option("table", "wide", "json", "yaml", default="table")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    load: dict[str, Any],
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    explain: bool,
    output: str,
) -> int:
    """Say on which GPUs a model fits, how large, and why, without a cluster.

    \b
      rayllm-ctl plan --model Qwen/Qwen3-32B
      rayllm-ctl plan --model Qwen/Qwen3-32B --gpu L4 --tp 4 --max-model-len 131072
      rayllm-ctl plan --model Qwen/Qwen3-32B --concurrency 200 --ttft 1s --tpot 40ms

    Exit code 0: fits or risky; 1: does not fit, or contradicts itself; 2: usage.
    """
    from rayllm_ctl.cli.session import print_data, printer
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.service import resolve

    service = resolve(file, overrides | load, flags=FLAGS)
    sized = {"replicas.fixed", "replicas.min", "replicas.max"} & overrides.keys()
    plan = make_plan(
        service,
        model_config=model_config,
        offline=offline,
        prices=prices,
        explain=explain,
        hand_sized=True if sized else None,
    )
    if output in ("json", "yaml"):
        print_data(to_json(plan), output)
    else:
        from rayllm_ctl.console.plan import table

        style = printer(ctx)
        for line in table(plan, style, wide=output == "wide"):
            style.line(line)
    return OK if plan.runs else FAILED
