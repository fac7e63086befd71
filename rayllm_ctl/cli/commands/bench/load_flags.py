"""The flags of a load, which `bench run` and `bench sweep` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.api_key_input import api_keys_option
from rayllm_ctl.cli.commands.bench.values import Amounts, LoadLimits, TokenLength
from rayllm_ctl.cli.values import Duration, KeyValue, SecretReference

F = TypeVar("F", bound=Callable[..., Any])

_LOAD: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--api",
        type=click.Choice(["chat", "completions"]),
        default="chat",
        show_default=True,
        help="Endpoint to measure.",
    ),
    click.option(
        "--concurrency",
        type=Amounts(int),
        metavar="N,...",
        help="Requests in flight at any time; 8 by default. Several are measured one after another.",
    ),
    click.option(
        "--rate",
        type=Amounts(float),
        metavar="N,...",
        help="Open-loop arrival rate in requests per second.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(["poisson", "constant", "burst"]),
        default="poisson",
        show_default=True,
        help="How requests arrive with --rate.",
    ),
    click.option("--burst", type=click.IntRange(min=2), help="Requests that arrive at once with --arrivals burst."),
    click.option("--ramp", type=Duration(), help="Time in which the load increases from zero to its full value."),
    click.option("--requests", type=click.IntRange(min=1), help="How many requests to send."),
    click.option("--duration", type=Duration(), help="How long to send requests; 30s by default without --requests."),
    click.option("--warmup", type=click.IntRange(min=0), default=0, help="Warm-up requests, which are not counted."),
    click.option(
        "--answer-timeout",
        type=Duration(),
        default="10m",
        show_default=True,
        help="Time after which a request counts as failed.",
    ),
    click.option(
        "--input-tokens",
        type=TokenLength(),
        help="Length of prompts: N, uniform:MIN:MAX, lognormal:MEDIAN:SIGMA[:MAX]; 256 by default.",
    ),
    click.option(
        "--output-tokens",
        type=TokenLength(),
        default="128",
        show_default=True,
        help="Limit of the answers (max_tokens), in the same forms.",
    ),
    click.option(
        "--prefix-tokens", type=click.IntRange(min=1), help="Number of tokens in the shared prefix of prompts."
    ),
    click.option("--prefixes", type=click.IntRange(min=1), default=1, help="Number of different prefixes."),
    click.option(
        "--prompts",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
        help="File with prompts, - for standard input: JSON Lines with prompt or messages, OpenAI batch, or ShareGPT.",
    ),
    click.option("--tokenizer", help="Folder or Hugging Face name of the tokenizer for generating prompts."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and arrivals."),
    click.option(
        "--set",
        "fields",
        type=KeyValue(typed=True),
        multiple=True,
        metavar="KEY=VALUE",
        help="Field of every request, such as temperature=0 or ignore_eos=true.",
    ),
    click.option(
        "--stream/--no-stream",
        default=True,
        help="Stream answers; --no-stream measures only the time of whole answers.",
    ),
    click.option(
        "--slo",
        type=LoadLimits(),
        metavar="NAME=TIME,...",
        help="Latency limits for answers: ttft=500ms,tpot=50ms,itl=200ms,e2e=10s,share=0.95.",
    ),
    click.option("--find-max", is_flag=True, help="Search for the highest rate that meets the limits of --slo."),
)

_PLACE: tuple[Callable[[Any], Any], ...] = (
    click.option("--local", is_flag=True, help="Send the load from this machine, not from a Job next to the service."),
    click.option(
        "--api-key-secret",
        type=SecretReference(),
        help="Secret with the API key for the Job, if the service requires one; several, one per line, take turns.",
    ),
    api_keys_option,
)


def load_options(function: F) -> F:
    """The flags for the kind and number of requests, passed under the names of workflows.bench.flags.Flags."""
    return _with(function, _LOAD)


def place_options(function: F) -> F:
    """The flags for the origin of requests and their API key, passed in the same way."""
    return _with(function, _PLACE)


def _with(function: F, options: tuple[Callable[[Any], Any], ...]) -> F:
    decorated: Any = function
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result
