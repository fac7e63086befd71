"""API keys of a gateway: created, listed and revoked while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained, format_right, missing, not_permitted
from rayllm_ctl.cluster.apply.api_keys import add_entry, read_secret, remove_entry, touch_pods
from rayllm_ctl.cluster.lookup.services import find, not_found
from rayllm_ctl.cluster.ray.gateway import gateway_of
from rayllm_ctl.errors import ConflictError, UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.spec import api_keys as apikeys
from rayllm_ctl.model.spec.api_keys import ApiKey
from rayllm_ctl.model.spec.checks.pod_fields import is_object_name
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.model.workload import Right, Rights

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_CHANGE = Rights(
    needed=(Right("get", "Secret"), Right("create", "Secret"), Right("patch", "Secret")),
    display=(Right("list", "Pod"), Right("patch", "Pod")),
)
_REMOVE = Rights(needed=(Right("get", "Secret"), Right("patch", "Secret")), display=_CHANGE.display)
_READ = Rights(needed=(Right("get", "Secret"),))
_LOOKUP = Rights(needed=(Right("get", "RayService"),), display=(Right("list", "RayService"), Right("get", "Namespace")))
"""Rights to look up the Secret of a service, unless the Secret is named."""

KEY_RIGHTS = _LOOKUP | _CHANGE | _REMOVE | _READ
"""Rights that all commands for keys need."""

_SECONDS = 90
"""The longest time until a kubelet refreshes a mounted Secret by itself (its sync period and the age of its cache)."""


@dataclass(frozen=True)
class KeyStore:
    """The Secret with the keys. service: the service that was named, empty if the Secret was named itself.

    models: those of the service; empty if they are unknown. limited: whether its gateway has limits; None: unknown.
    """

    secret: str
    namespace: str
    service: str = ""
    models: tuple[str, ...] = ()
    limited: bool | None = None

    @property
    def arguments(self) -> str:
        """The arguments that name it on the command line."""
        return f"{self.service or f'--secret {self.secret}'} -n {self.namespace}"


@dataclass(frozen=True)
class NewKey:
    """A created key. `key` is shown once and not stored. notes: when it takes effect."""

    name: str
    key: str
    store: KeyStore
    entry: ApiKey
    notes: tuple[str, ...]


def require_secret_name(secret: str) -> None:
    """Raise UsageError for the name of a Secret that cannot exist."""
    if not is_object_name(secret):
        raise UsageError(f"{quoted(secret)} is not a valid name of a Secret", hint="--secret qwen-keys")


def require_valid_key(key: ApiKey) -> None:
    """Raise UsageError, with every problem, for a key that no service can have."""
    problems = tuple(apikeys.key_problems(key, datetime.now(UTC)))
    if problems:
        raise UsageError("\n".join(problems), hint="rayllm-ctl keys create --help")


def store_of(cluster: Cluster, service: str | None, secret: str | None, namespace: str) -> KeyStore:
    """The Secret that is called `secret`, or that the gateway of `service` reads.

    Raises UserError for a service that does not exist or needs no keys.
    """
    if secret is not None:
        return KeyStore(secret, namespace)
    assert service is not None
    with explained(cluster, namespace, _LOOKUP):
        stored = find(cluster, RAY_SERVICE, service, namespace)
    if stored is None:
        error = not_found(cluster, RAY_SERVICE, service, namespace)
        before = "keys can be created before the service: rayllm-ctl keys create --secret"
        raise UserError(error.message, hint=(*error.hints, f"{before} {service}-keys --key-name NAME -n {namespace}"))
    gateway = gateway_of(stored)
    if gateway is None or gateway.keys_secret is None:
        problem = (
            "has no gateway" if gateway is None else "does not require API keys: its gateway has no spec.gateway.keys"
        )
        raise UserError(
            f"service {namespace}/{service} {problem}",
            hint="gateway: {keys: {}} in its spec, then rayllm-ctl deploy -f FILE",
        )
    limited = gateway.config.get("limits") is not None
    return KeyStore(gateway.keys_secret, namespace, service, gateway.models, limited)


def create_key(cluster: Cluster, store: KeyStore, key: ApiKey) -> NewKey:
    """Create a valid key and store its hash. Raises UsageError for what the service does not have, ConflictError for a
    name in use."""
    now = datetime.now(UTC).replace(microsecond=0)
    _check(store, key)
    lacking = _permitted(cluster, store.namespace, _CHANGE)
    entry = ApiKey(key.name, now, key.expires, key.models, key.requests, key.tokens)
    secret = apikeys.new_key()
    if not add_entry(cluster, store.secret, store.namespace, key.name, apikeys.key_entry(entry, secret)):
        raise ConflictError(
            f"Secret {store.namespace}/{store.secret} already has a key named {key.name}",
            hint=(
                "--key-name NAME    # another name",
                f"rayllm-ctl keys revoke {store.arguments} --key-name {key.name}    # the old one",
            ),
        )
    return NewKey(key.name, secret, store, entry, _refresh_pods(cluster, store, lacking, "the key is valid"))


def list_api_keys(cluster: Cluster, store: KeyStore) -> list[ApiKey]:
    """The keys, by name. Raises UserError if the Secret does not exist."""
    _permitted(cluster, store.namespace, _READ)
    secret = read_secret(cluster, store.secret, store.namespace)
    if secret is None:
        raise _no_secret(store)
    return apikeys.keys_of(secret)


def revoke_key(cluster: Cluster, store: KeyStore, name: str) -> tuple[str, ...]:
    """Remove a key; returns notes on when that takes effect. Raises UserError if there is no such key."""
    lacking = _permitted(cluster, store.namespace, _REMOVE)
    if not remove_entry(cluster, store.secret, store.namespace, name):
        secret = read_secret(cluster, store.secret, store.namespace)
        if secret is None:
            raise _no_secret(store)
        close = nearest(name, [key.name for key in apikeys.keys_of(secret)])
        raise UserError(
            f"Secret {store.namespace}/{store.secret} has no key named {quoted(name)}",
            hint=f"--key-name {close}" if close else f"rayllm-ctl keys list {store.arguments}",
        )
    return _refresh_pods(cluster, store, lacking, "the key is rejected")


def _check(store: KeyStore, key: ApiKey) -> None:
    problems: list[str] = []
    hints: list[str] = []
    for model in key.models or ():
        if store.models and model not in store.models:
            close = nearest(model, store.models)
            problems.append(f"service {store.service} serves no model {quoted(model)}, but {', '.join(store.models)}")
            hints += [f"--models {close}"] if close else []
    if (key.requests or key.tokens) and store.limited is False:
        problems.append(f"the gateway of service {store.service} enforces no limits")
        hints.append("spec.gateway.limits: {} lets keys have limits of their own")
    if problems:
        raise UsageError("\n".join(problems), hint=tuple(hints) or "rayllm-ctl keys create --help")


def _permitted(cluster: Cluster, namespace: str, rights: Rights) -> list[Right]:
    """The missing optional rights. ClusterError if a required right is missing."""
    lacking = missing(cluster, namespace, (*rights.needed, *rights.display))
    fatal = [right for right in lacking if right in rights.needed]
    if fatal:
        raise not_permitted(cluster, namespace, fatal)
    return lacking


def _refresh_pods(cluster: Cluster, store: KeyStore, lacking: Iterable[Right], effect: str) -> tuple[str, ...]:
    """Have the pods read the Secret again; return notes on when `effect` applies. The change itself is done."""
    rights: Sequence[str] = [format_right(right) for right in lacking]
    reason = f"not permitted to {', '.join(rights)}" if rights else ""
    if not reason:
        try:
            pods = touch_pods(cluster, store.secret, store.namespace)
        except UserError as error:
            reason = error.message
        else:
            return (f"{effect} within a few seconds",) if pods else ("no running pod reads this Secret yet",)
    return (f"{effect} within {_SECONDS} s: pods could not be told to read the Secret at once ({reason})",)


def _no_secret(store: KeyStore) -> UserError:
    return UserError(
        f"Secret {store.namespace}/{store.secret} does not exist: there are no keys",
        hint=f"rayllm-ctl keys create {store.arguments} --key-name NAME",
    )
