"""The part of a plan for the model's files and the caches: claims, downloads, and where the engine loads from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.pods import PodTemplate, StorageContainer
from rayllm_ctl.model.spec.model_storage import AccessMode
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class PlannedClaim:
    """A PersistentVolumeClaim that is created with the service and kept when the service is deleted.

    file_bytes: of the files that its size was derived from; None: the user gave the size.
    """

    name: Annotated[str, "Name of the PersistentVolumeClaim."]
    size: Annotated[str, "Its size, a quantity."]
    storage_class: Annotated[str | None, "StorageClass; null: that of the cluster."]
    access_modes: Annotated[tuple[AccessMode, ...], "Access modes."]
    file_bytes: Annotated[int | None, "Bytes of the files for which it is sized."] = field(
        default=None, metadata=OMIT_NONE
    )


@dataclass(frozen=True)
class DownloadSettings:
    """A ConfigMap with what the code for the model's files is told, named after its content."""

    config_map: Annotated[str, "Name of the ConfigMap."]
    data: Annotated[Mapping[str, Any], "Contents of settings.json."]


@dataclass(frozen=True)
class Download:
    """A Job that downloads the files of a model once.

    name: how the Job's begins. pod: its template, without variables, which are the container's. file_bytes: None if not
    known.
    """

    name: Annotated[str, "How the name of the Job begins; the digest of its spec follows."]
    model_id: Annotated[str, "The model."]
    source: Annotated[str, "URI of the files."]
    target: Annotated[str, "Folder of the claim or of the bucket."]
    settings: DownloadSettings
    container: StorageContainer
    pod: PodTemplate
    file_bytes: Annotated[int | None, "Bytes of the files, as planned."] = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class ModelStoragePlan:
    """What is rendered for the model's files and the caches of a service.

    model_source: where the engine loads from; None of several models, whose plans say it, and with a cache alone.
    settings: of the init containers of serving pods. cache_root: the folder of the compile cache.
    """

    model_source: Annotated[str | None, "Folder or URI that the engine loads."] = field(
        default=None, metadata=OMIT_NONE
    )
    claims: tuple[PlannedClaim, ...] = ()
    settings: tuple[DownloadSettings, ...] = ()
    downloads: tuple[Download, ...] = ()
    cache_root: Annotated[str | None, "Folder of the compile cache in the pods."] = field(
        default=None, metadata=OMIT_NONE
    )
    notes: Annotated[tuple[str, ...], "What to know of it."] = ()

    @property
    def runs_code(self) -> bool:
        """Whether a pod runs the code for the model's files."""
        return bool(self.settings or self.downloads)
