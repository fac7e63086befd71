"""`chat`: one question, or a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.api_key_input import api_key_option, read_api_key
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.files import standard_input


@click.command(cls=Command, short_help="Talk to a service through the API server.")
@click.argument("name")
@click.argument("prompt", required=False)
@click.option("--model", help="Model or adapter to ask if the service has several; the first by default.")
@click.option("--system", help="System message.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum number of tokens of the answer.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Sampling temperature.")
@click.option("--seed", type=int, help="Seed for sampling.")
@api_key_option
@kube_options
def command(
    name: str,
    prompt: str | None,
    model: str | None,
    system: str | None,
    max_tokens: int | None,
    temperature: float | None,
    seed: int | None,
    api_key_file: Path | None,
    kube: KubeFlags,
) -> None:
    """Ask service NAME and print the answer as it streams. Without PROMPT: a conversation, or the question from a pipe.

    \b
      rayllm-ctl chat qwen3-32b "Why is the sky blue?"
      git diff | rayllm-ctl chat qwen3-32b
      rayllm-ctl chat chat --model Qwen/Qwen3-8B "Why is the sky blue?"
      RAYLLM_API_KEY=$(cat key) rayllm-ctl chat qwen3-32b "Why is the sky blue?"
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.access.chat import ask, choose_model, endpoint, require_key

    key = read_api_key(api_key_file)
    if prompt is None and not (stream := standard_input(f'rayllm-ctl chat {name} "PROMPT"')).isatty():
        prompt = stream.read().strip()
        if not prompt:
            raise click.UsageError("nothing was asked: standard input is empty and no PROMPT was given")
    cluster = connect(kube)
    where = endpoint(cluster, name, kube.namespace or cluster.namespace)
    require_key(where, key)
    chosen = choose_model(where, model)
    given = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    messages = [{"role": "system", "content": system}] if system else []
    conversation = prompt is None
    if conversation:
        click.echo(f"{chosen} on {name}; end with Ctrl-D", err=True)
    while True:
        if conversation:
            try:
                prompt = click.prompt("you", prompt_suffix="> ", err=True)
            except click.Abort:
                click.echo(err=True)
                return
        messages.append({"role": "user", "content": prompt or ""})
        answer = []
        for piece in ask(cluster, where, chosen, messages, settings, key):
            answer.append(piece)
            click.echo(piece, nl=False)
        click.echo()
        if not conversation:
            return
        messages.append({"role": "assistant", "content": "".join(answer)})
