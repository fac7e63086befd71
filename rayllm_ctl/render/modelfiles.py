"""The objects for a model's files and caches: claims, ConfigMaps, and the Jobs that download."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayllm_ctl.model.kube.labels import CODE_DIGEST, COMPONENT
from rayllm_ctl.model.kube.model_downloads import CLAIM_ANNOTATIONS, DOWNLOAD_COMPONENT, is_download, job_name
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.render.servingcode import storage_code
from rayllm_ctl.render.templating import fill


def storage_objects(
    storage: ModelStoragePlan | None, values: Mapping[str, Any], own: Path | None = None
) -> list[dict[str, Any]]:
    """The objects, in the order in which they are needed. values: those of the templates for the whole service."""
    return [] if storage is None else list(_objects(storage, values, own))


def _objects(storage: ModelStoragePlan, values: Mapping[str, Any], own: Path | None) -> Iterator[dict[str, Any]]:
    for claim in storage.claims:
        yield fill("claim.yaml.j2", {**values, "claim": claim, "claim_annotations": CLAIM_ANNOTATIONS}, own)
    if not storage.runs_code:
        return
    code = storage_code(values["name"])
    yield fill("download-code.yaml.j2", {**values, "download_code": code}, own)
    settings = (*(one.settings for one in storage.downloads), *storage.settings)
    for one in {item.config_map: item for item in settings}.values():
        text = json.dumps(one.data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        yield fill("download-settings.yaml.j2", {**values, "settings": one, "settings_text": text}, own)
    labels = {**values["labels"], COMPONENT: DOWNLOAD_COMPONENT}
    for download in storage.downloads:
        # Another code is another Job, which ends in seconds where the files are complete.
        pod = replace(download.pod, annotations={**download.pod.annotations, CODE_DIGEST: code.digest})
        job = {**values, "labels": labels, "download": replace(download, pod=pod)}
        yield fill("download.yaml.j2", job, own)


def named_jobs(manifests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """`manifests` in which the names of Jobs that download, so far only how they begin, have the digest of the spec."""
    return [
        _named(item, job_name(item["metadata"]["name"], item.get("spec", {}))) if is_download(item) else item
        for item in manifests
    ]


def _named(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}
