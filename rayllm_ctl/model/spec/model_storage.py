"""spec.storage.model and spec.storage.caches: where weights and compiled graphs are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass

AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]
BucketLoad = Literal["copy", "stream"]
PullPolicy = Literal["IfNotPresent", "Always", "Never"]

AUTO_SIZE = "auto"
"""Size of a claim that is derived from the plan: the bytes of the files plus 10 %."""

HUB = "hf"
"""Source of a mirror: the model's repository on the Hugging Face Hub."""

CREDENTIALS = {"AWS_ACCESS_KEY_ID": False, "AWS_SECRET_ACCESS_KEY": False, "AWS_SESSION_TOKEN": True}
"""Keys of a Secret with S3 credentials, which become variables of the same names; and whether they may be missing."""


@dataclass(frozen=True)
class NewClaim:
    """A PersistentVolumeClaim that is created with the service, and kept when the service is deleted."""

    size: Annotated[str, "Size, such as 200Gi; auto: the model's files plus 10 %."] = AUTO_SIZE
    storage_class: Annotated[str | None, "StorageClass; by default that of the cluster."] = None
    access_modes: Annotated[tuple[AccessMode, ...], "Access modes; ReadWriteMany by default."] = ("ReadWriteMany",)


@dataclass(frozen=True)
class HubCache:
    """Files in the cache of huggingface_hub (HF_HOME), which all pods share. Each pod still asks the Hub."""

    cache: Annotated[str, "Name of the PersistentVolumeClaim with the cache."]
    create: NewClaim | None = None


@dataclass(frozen=True)
class ModelClaim:
    """A PersistentVolumeClaim with the model's files."""

    name: Annotated[str, "Name of the PersistentVolumeClaim."]
    path: Annotated[str | None, "Folder of the model in the volume."] = None


@dataclass(frozen=True)
class MirrorClaim(ModelClaim):
    """A PersistentVolumeClaim into which a mirror puts the model's files."""

    path: Annotated[str | None, "Folder of the model in the volume; MODEL/REVISION by default."] = None
    create: NewClaim | None = None


@dataclass(frozen=True)
class ObjectStore:
    """A folder of a bucket with the model's files."""

    uri: Annotated[str, "Folder: s3://BUCKET/PATH or gs://BUCKET/PATH."]
    endpoint: Annotated[str | None, "Address of a self-hosted S3 service: http://minio:9000."] = None
    region: Annotated[str | None, "Region of the bucket."] = None
    anonymous: Annotated[bool, "Read a public bucket without credentials."] = False
    secret: Annotated[
        str | None,
        "Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if needed, AWS_SESSION_TOKEN; of gs:// with "
        "credentials.json. Without it the pods' own identity is used.",
    ] = None
    load: Annotated[
        BucketLoad, "copy: each pod copies the files to its disk first. stream: the engine reads them from the bucket."
    ] = "copy"


@dataclass(frozen=True)
class MirrorTarget:
    """Where a mirror puts the files: one of `claim` and `objectStore`."""

    claim: MirrorClaim | None = None
    object_store: ObjectStore | None = None


@dataclass(frozen=True)
class Mirror:
    """A Job that downloads the files once, verifies them and keeps them for all replicas."""

    to: MirrorTarget
    from_: Annotated[
        str, "hf, the model's repository on the Hub (default), or s3://, gs:// or https:// of a folder."
    ] = HUB
    endpoint: Annotated[str | None, "Address of a self-hosted S3 service that is the source."] = None
    region: Annotated[str | None, "Region of the bucket that is the source."] = None
    anonymous: Annotated[bool, "Read a public source without credentials."] = False
    secret: Annotated[str | None, "Secret with the credentials of a bucket that is the source."] = None


@dataclass(frozen=True)
class ModelImage:
    """An OCI image with the model's files, mounted as an image volume (Kubernetes 1.35 or later)."""

    reference: Annotated[str, "Image: REGISTRY/NAME:TAG, or with a digest."]
    path: Annotated[str | None, "Folder of the model in the image; its root by default."] = None
    pull_policy: Annotated[PullPolicy, "When nodes pull it."] = "IfNotPresent"


@dataclass(frozen=True)
class ModelStorage:
    """Where the weights come from: exactly one of the ways."""

    hub: HubCache | None = None
    claim: ModelClaim | None = None
    mirror: Mirror | None = None
    object_store: ObjectStore | None = None
    image: ModelImage | None = None


@dataclass(frozen=True)
class Caches:
    """What the engine computes at its first start and may find again at the next one."""

    compile: Annotated[str | None, "PersistentVolumeClaim for compiled graphs and kernels; a folder per GPU type."] = (
        None
    )
    create: Annotated[NewClaim | None, "Create the claim."] = None
    startup_plan: Annotated[
        bool, "Have vLLM keep its memory profile beside them, and skip profiling at later starts."
    ] = False
