"""Checks of folders in object stores, and of the sources of mirrors."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential
from rayllm_ctl.model.spec.checks.pod_fields import is_object_name
from rayllm_ctl.model.spec.model_storage import HUB, Mirror, ObjectStore
from rayllm_ctl.model.text.patterns import BUCKET_FOLDER, ENDPOINT, REGION, WEB_FOLDER
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_AZURE = ("azure://", "abfss://", "az://")

_ANONYMOUS = "://anonymous@"
"""Ray's own form of a public bucket (ray/llm/_internal/common/utils/cloud_filesystem, 2.60)."""


def bucket_problems(at: Path, store: ObjectStore) -> Iterator[Problem]:
    """Problems of a bucket that serving pods read."""
    yield from _uri((*at, "uri"), store.uri, web=False)
    yield from _access(at, store, "s3" if store.uri.startswith("s3://") else "gs")


def mirror_source_problems(at: Path, mirror: Mirror) -> Iterator[Problem]:
    """Problems of what a mirror copies."""
    source = mirror.from_
    if source == HUB:
        yield from _access(at, mirror, HUB)
        return
    if source.startswith(("hf://", "hf:")):
        yield Problem((*at, "from"), f"{quoted(source)} is not supported: the repository is spec.model.id", "from: hf")
        return
    yield from _uri((*at, "from"), source, web=True)
    yield from _access(at, mirror, source.partition("://")[0])


def _uri(at: Path, uri: str, *, web: bool) -> Iterator[Problem]:
    if holds_a_credential(uri):
        yield Problem(at, "contains credentials", "a Secret with them: secret, next to it in the spec")
    elif uri.startswith(_AZURE):
        scheme = uri.partition("://")[0]
        yield Problem(
            at,
            f"{scheme}:// is not supported: Ray reads azure:// and abfss://, and the streamer of vLLM only az://",
            "a claim with the files (spec.storage.model.claim), or a copy of them in s3:// or gs://",
        )
    elif _ANONYMOUS in uri:
        yield Problem(at, f"{quoted(uri)} has Ray's form of a public bucket", "the bucket alone, and anonymous: true")
    elif uri.startswith("http://"):
        yield Problem(at, "http:// is not supported: nothing would protect the files on their way", "https://")
    elif web and uri.startswith("https://"):
        if not WEB_FOLDER.fullmatch(uri):
            yield Problem(at, f"{quoted(uri)} is not the address of a folder, such as https://example.com/models/qwen/")
    elif not BUCKET_FOLDER.fullmatch(uri):
        others = f"{HUB}, s3://bucket/folder, gs://bucket/folder or https://host/folder/"
        yield Problem(
            at,
            f"{quoted(uri)} is not a folder of a bucket, such as {'s3://bucket/folder' if not web else others}",
            "" if web else "s3://BUCKET/PATH or gs://BUCKET/PATH",
        )


def _access(at: Path, access: ObjectStore | Mirror, scheme: str) -> Iterator[Problem]:
    """Endpoint, region and credentials of a bucket or of the source of a mirror. scheme: s3, gs, https or hf."""
    if access.endpoint is not None and not ENDPOINT.fullmatch(access.endpoint):
        # Not repeated: the address may contain credentials.
        yield Problem((*at, "endpoint"), "is not a valid address, such as http://minio:9000 (without credentials)")
    if access.region is not None and not REGION.fullmatch(access.region):
        yield Problem((*at, "region"), f"{quoted(access.region)} is not a valid region, such as eu-central-1")
    if access.secret is not None and not is_object_name(access.secret):
        # Not repeated: somebody may have written a key itself.
        yield Problem(
            (*at, "secret"),
            "expected the name of a Secret: lower-case letters, digits, '-' and '.'",
            "kubectl create secret generic bucket --from-env-file=FILE    # with AWS_ACCESS_KEY_ID=... in FILE",
        )
    if access.anonymous and access.secret is not None:
        yield Problem((*at, "anonymous"), "cannot be combined with a secret", "remove one of them")
    given = {"endpoint": access.endpoint is not None, "region": access.region is not None}
    if scheme in (HUB, "https"):
        given |= {"anonymous": access.anonymous, "secret": access.secret is not None}
    for name, is_given in given.items():
        if is_given and scheme != "s3":
            yield Problem((*at, name), f"has no effect with {scheme}", _instead(name, scheme))


def _instead(name: str, scheme: str) -> str:
    if name == "secret" and scheme == HUB:
        return "spec.model.tokenSecret (--hf-token-secret NAME/KEY)"
    return "remove it"
