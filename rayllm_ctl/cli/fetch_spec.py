"""From the flags of `fetch` to the part of a spec that downloads a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.model_storage import HUB, Mirror, MirrorTarget, ModelStorage, NewClaim
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Storage
from rayllm_ctl.workflows.rollout.model_storage.fetch import fetch_name

_FLAGS = {
    "spec.storage.model.mirror.from": "--from",
    "spec.storage.model.mirror.to": "--to",
    "spec.storage.model.mirror.secret": "--storage-secret",
    "spec.storage.model.mirror.endpoint": "--storage-endpoint",
    "spec.storage.model.mirror.to.claim.create.size": "--size",
    "spec.storage.model.mirror.to.claim.create.storageClass": "--storage-class",
    "spec.engine.env": "--env",
    "spec.engine.image": "--image",
    "metadata.namespace": "--namespace",
    "spec.model.id": "MODEL",
    "spec.model.revision": "--revision",
}
"""The flag of each field, for messages."""


def fetched_service(
    model: str, to: MirrorTarget, source: str, *, revision: str | None, token: SecretKey | None, secret: str | None,
    endpoint: str | None, size: str | None, storage_class: str | None, image: str | None, env: Mapping[str, str],
    namespace: str | None,
) -> LLMService:  # fmt: skip
    """A service with nothing but a mirror. Raises UsageError for flags that are wrong or contradict each other."""
    bucket = source != HUB
    claim, store = to.claim, to.object_store
    if token is not None and source != HUB:
        raise UsageError(
            "--hf-token-secret is for the Hugging Face Hub, and --from is another source",
            hint="remove --hf-token-secret",
        )
    if (secret or endpoint) and store is None and not bucket:
        flag = "--storage-secret" if secret else "--storage-endpoint"
        raise UsageError(f"{flag} is for buckets, and neither --from nor --to is one", hint=f"remove {flag}")
    if (size or storage_class) and claim is None:
        flag = "--size" if size else "--storage-class"
        raise UsageError(f"{flag} creates a claim, and --to is a bucket", hint=f"remove {flag}")
    if claim is not None and (size or storage_class):
        created = NewClaim(storage_class=storage_class)
        claim = replace(claim, create=replace(created, size=size) if size else created)
    if store is not None:
        store = replace(store, secret=secret, endpoint=endpoint)
    mirror = Mirror(
        MirrorTarget(claim, store), source, secret=secret if bucket else None, endpoint=endpoint if bucket else None
    )
    service = LLMService(
        fetch_name(model), namespace=namespace, model=Model(model, revision=revision, token_secret=token),
        engine=Engine(image=image, env=env), storage=Storage(model=ModelStorage(mirror=mirror)),
    )  # fmt: skip
    problems = validate(service)
    if problems:
        first = problems[0]
        raise UsageError(f"{_named(first.where)}: {first.message}", hint=first.hint)
    return service


def _named(path: str) -> str:
    """The flag of a field, or of the section around it."""
    known = path
    while known and known not in _FLAGS:
        known = known.rpartition(".")[0]
    return _FLAGS.get(known, path)
