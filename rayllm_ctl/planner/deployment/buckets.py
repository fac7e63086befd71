"""Access of pods to the buckets with a model's files: settings and credentials for the code of rayllm-ctl, and for the
engine that streams from one.

Read against runai-model-streamer 0.17.1 and vLLM 0.29 (model_executor/model_loader/runai_streamer_loader.py, which
takes AWS_ENDPOINT_URL for the streamer's endpoint). Secrets are referenced by key or mounted, never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.model_downloads import SOURCE_VOLUME, TARGET_VOLUME
from rayllm_ctl.model.plan.pods import EnvVar, StorageMount, StorageVolume
from rayllm_ctl.model.spec.model_storage import HUB, Mirror, ObjectStore
from rayllm_ctl.model.spec.pod_options import KeyOf
from rayllm_ctl.model.spec.service import LLMService, Volume
from rayllm_ctl.planner.deployment.pod_templates import worker_template

_KEYS = {"AWS_ACCESS_KEY_ID": False, "AWS_SECRET_ACCESS_KEY": False, "AWS_SESSION_TOKEN": True}
"""Keys of the Secret of an S3 bucket, and whether it may lack them."""

_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
_KEY_FILE = "credentials.json"
_FOLDER = "/etc/rayllm/{}"

_PASSED_ON = re.compile(
    r"(HF|HUGGINGFACE|HUGGING_FACE|AWS|GOOGLE)_\w+|(https?|no|all|HTTPS?|NO|ALL)_(proxy|PROXY)|SSL_CERT_(FILE|DIR)"
    r"|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(CLOUD_)?STORAGE_EMULATOR_(HOST|ENDPOINT)"
)
"""Variables of the workers by which the Hub and buckets are reached. With the others a change would be another Job."""

_OF_FOLDERS = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HUGGINGFACE_HUB_CACHE")
"""Those of them that the code's containers set themselves."""


@dataclass(frozen=True)
class Bucket:
    """A bucket, or any other source of a mirror, and how it is reached."""

    uri: str
    endpoint: str | None = None
    region: str | None = None
    anonymous: bool = False
    secret: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The part of settings.json."""
        return {"endpoint": self.endpoint, "region": self.region, "anonymous": self.anonymous}

    @property
    def on_google(self) -> bool:
        return self.uri.startswith("gs://")


NOWHERE = Bucket("")
"""In the place of a store that is not a bucket: a folder, or the Hub."""


@dataclass(frozen=True)
class Access:
    """What a container has for a bucket."""

    env: tuple[EnvVar, ...] = ()
    volumes: tuple[StorageVolume, ...] = ()
    mounts: tuple[StorageMount, ...] = ()

    def __or__(self, other: Access) -> Access:
        """With what the other has. Volumes and mounts that both have are the same."""
        return Access(
            (*self.env, *other.env),
            tuple(dict.fromkeys((*self.volumes, *other.volumes))),
            tuple(dict.fromkeys((*self.mounts, *other.mounts))),
        )


def bucket_of(store: ObjectStore, folder: str = "") -> Bucket:
    """The folder of a bucket, or one below it."""
    uri = "/".join(part for part in (store.uri.rstrip("/"), folder) if part)
    return Bucket(uri, store.endpoint, store.region, store.anonymous, store.secret)


def mirror_source(mirror: Mirror, model_id: str) -> Bucket:
    """Where a mirror reads."""
    uri = f"hf://{model_id}" if mirror.from_ == HUB else mirror.from_
    return Bucket(uri, mirror.endpoint, mirror.region, mirror.anonymous, mirror.secret)


def access_of_code(bucket: Bucket, *, target: bool = False) -> Access:
    """Credentials for the code of rayllm-ctl, which may have others for its source and its target."""
    prefix, volume = ("TARGET_", TARGET_VOLUME) if target else ("SOURCE_", SOURCE_VOLUME)
    if bucket.secret is None:
        return Access()
    if bucket.on_google:
        return _key_file(bucket.secret, volume, (f"{prefix}{_GOOGLE}",))
    return Access(tuple(_keys(bucket.secret, prefix)))


def access_of_engine(bucket: Bucket) -> Access:
    """What the streamer in the engine's processes takes."""
    if bucket.on_google:
        if bucket.anonymous:
            return Access((EnvVar("RUNAI_STREAMER_GCS_USE_ANONYMOUS_CREDENTIALS", "1"),))
        if bucket.secret is None:
            return Access()
        return _key_file(bucket.secret, SOURCE_VOLUME, (_GOOGLE, "RUNAI_STREAMER_GCS_CREDENTIAL_FILE"))
    return Access((*_place(bucket), *(() if bucket.secret is None else _keys(bucket.secret, ""))))


def _place(bucket: Bucket) -> Iterator[EnvVar]:
    if bucket.region is not None:
        # The streamer's own client reads the one, boto3, with which it lists files, the other.
        yield EnvVar("AWS_REGION", bucket.region)
        yield EnvVar("AWS_DEFAULT_REGION", bucket.region)
    if bucket.endpoint is not None:
        yield EnvVar("AWS_ENDPOINT_URL", bucket.endpoint)
        # Self-hosted services rarely have a name in DNS for each bucket.
        yield EnvVar("RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING", "0")
    if bucket.anonymous:
        yield EnvVar("RUNAI_STREAMER_S3_UNSIGNED", "1")


def _keys(secret: str, prefix: str) -> Iterator[EnvVar]:
    for key, optional in _KEYS.items():
        yield EnvVar(f"{prefix}{key}", secret=KeyOf(secret, key, optional))


def _key_file(secret: str, volume: str, variables: tuple[str, ...]) -> Access:
    folder = _FOLDER.format(volume)
    return Access(
        tuple(EnvVar(name, f"{folder}/{_KEY_FILE}") for name in variables),
        (StorageVolume(volume, secret=secret),),
        (StorageMount(volume, folder),),
    )


def reaches_a_source(variable: str) -> bool:
    """Whether a variable of the workers is also one of the containers with the code of rayllm-ctl."""
    return _PASSED_ON.fullmatch(variable) is not None and variable not in _OF_FOLDERS


def source_variables(service: LLMService) -> Iterator[EnvVar]:
    """The variables of the workers by which the Hub and buckets are reached: proxies, certificates, regions."""
    workers = worker_template(service, None, None, service.scheduling).env
    return (one for one in workers if reaches_a_source(one.name))


def files_of_the_user(service: LLMService) -> Iterator[Volume]:
    """Volumes that may have the certificates of a hub or bucket of one's own."""
    return (one for one in service.storage.volumes if one.config_map or one.secret)
