"""`keys`: API keys of a service with a gateway."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import NAMED_TABLE_FORMATS, RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command, CommandGroup
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import parse_duration

if TYPE_CHECKING:
    from rayllm_ctl.workflows.access.api_keys import KeyStore

F = TypeVar("F", bound=Callable[..., Any])


class Expiry(click.ParamType[datetime]):
    """A date, a time, or how long from now: 2027-01-31, 2027-01-31T12:00:00Z, 30d, 12h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        days = re.fullmatch(r"(\d{1,5})d", text)
        try:
            if days:
                return datetime.now(UTC) + timedelta(days=int(days[1]))
            if re.match(r"\d{4}-", text):
                found = datetime.fromisoformat(text)
                return found if found.tzinfo else found.replace(tzinfo=UTC)
            return datetime.now(UTC) + timedelta(seconds=parse_duration(text))
        except (ValueError, OverflowError):
            self.fail(f'"{text}" is not a time, such as 2027-01-31, 2027-01-31T12:00:00Z, 30d or 12h', param, ctx)


def _store_options(function: F) -> F:
    """NAME and --secret."""
    argument = click.argument("name", required=False)
    option = click.option(
        "--secret", metavar="SECRET", help="Secret with the keys, instead of NAME; works before the service exists."
    )
    return argument(option(function))


def _store(name: str | None, secret: str | None, kube: KubeFlags) -> tuple[Any, KeyStore]:
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.access.api_keys import require_secret_name, store_of

    if (name is None) == (secret is None):
        raise UsageError(
            "expected either NAME, the name of a service, or --secret", hint="rayllm-ctl keys list qwen3-32b"
        )
    if secret is not None:
        require_secret_name(secret)
    cluster = connect(kube)
    return cluster, store_of(cluster, name, secret, kube.namespace or cluster.namespace)


@click.group(cls=CommandGroup, name="keys", short_help="Create, list and revoke API keys of a service.")
def command() -> None:
    """Create, list and revoke API keys of a service whose gateway requires them (spec.gateway.keys).

    A Secret holds the hash and the permissions of each key. Changes take effect in seconds, without a restart.

    \b
      rayllm-ctl keys create qwen3-32b --key-name alice
      rayllm-ctl keys list qwen3-32b
      rayllm-ctl keys revoke qwen3-32b --key-name alice
    """


@command.command(cls=Command, name="create", short_help="Create a key and print it once.")
@_store_options
@click.option("--key-name", required=True, help="Name of the key, which logs and metrics show.")
@click.option("--models", multiple=True, metavar="MODEL", help="Model that the key may use, or all. Can be repeated.")
@click.option("--expires", type=Expiry(), help="When the key expires: 30d, 12h, 2027-01-31 (default: never).")
@click.option("--requests", metavar="RATE", help="Limit of requests, such as 60/minute.")
@click.option("--tokens", metavar="RATE", help="Limit of tokens, such as 100000/hour.")
@output_option(*RESULT_FORMATS)
@kube_options
def create(
    name: str | None,
    secret: str | None,
    key_name: str,
    models: tuple[str, ...],
    expires: datetime | None,
    requests: str | None,
    tokens: str | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Create an API key of service NAME and print it. It is shown only once: only its hash is stored.

    \b
      export RAYLLM_API_KEY=$(rayllm-ctl keys create qwen3-32b --key-name alice)
      rayllm-ctl keys create qwen3-32b --key-name batch --tokens 1000000/hour
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.model.spec.api_keys import ApiKey
    from rayllm_ctl.workflows.access import api_keys as keys

    key = ApiKey(key_name, expires=expires, models=models or None, requests=requests, tokens=tokens)
    keys.require_valid_key(key)
    cluster, store = _store(name, secret, kube)
    made = keys.create_key(cluster, store, key)
    if output in MACHINE_FORMATS:
        print_document("ApiKey", made.entry, output, key=made.key, secret=store.secret, namespace=store.namespace)
    elif output == "name":
        click.echo(made.name)
    else:
        click.echo(made.key)
    click.echo(f"key {made.name} created in Secret {store.namespace}/{store.secret}; it is not shown again", err=True)
    for note in made.notes:
        click.echo(note, err=True)


@command.command(cls=Command, name="list", short_help="List the keys and their permissions.")
@_store_options
@output_option(*NAMED_TABLE_FORMATS)
@kube_options
def list_keys(name: str | None, secret: str | None, output: str | None, kube: KubeFlags) -> None:
    """List the API keys of service NAME: names, times, models and limits.

    \b
      rayllm-ctl keys list qwen3-32b
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_list
    from rayllm_ctl.workflows.access import api_keys as keys

    cluster, store = _store(name, secret, kube)
    found = keys.list_api_keys(cluster, store)
    if output == "name":
        for key in found:
            click.echo(key.name)
    elif output in MACHINE_FORMATS:
        print_list("ApiKeyList", found, output)
    else:
        from rayllm_ctl.console.access.api_keys import key_table

        click.echo(key_table(found, datetime.now(UTC)), nl=False)


@command.command(cls=Command, name="revoke", short_help="Revoke a key.")
@_store_options
@click.option("--key-name", required=True, help="Name of the key.")
@output_option(*RESULT_FORMATS)
@kube_options
def revoke(name: str | None, secret: str | None, key_name: str, output: str | None, kube: KubeFlags) -> None:
    """Revoke an API key of service NAME: requests with it are rejected.

    \b
      rayllm-ctl keys revoke qwen3-32b --key-name alice
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.workflows.access import api_keys as keys

    cluster, store = _store(name, secret, kube)
    notes = keys.revoke_key(cluster, store, key_name)
    where = {"secret": store.secret, "namespace": store.namespace}
    if output in MACHINE_FORMATS:
        print_document("RevokedApiKey", {"name": key_name, **where}, output)
    elif output == "name":
        click.echo(key_name)
    click.echo(f"key {key_name} removed from Secret {store.namespace}/{store.secret}", err=True)
    for note in notes:
        click.echo(note, err=True)
