"""The Hugging Face cache of this machine: models--ORG--NAME/{refs,snapshots}."""

from __future__ import annotations

import os
from pathlib import Path

from rayllm_ctl.catalog.sources import folder, hfenv
from rayllm_ctl.catalog.sources.found import Checkpoint


def read_cache(model_id: str, revision: str | None) -> Checkpoint | None:
    """The cached checkpoint; None if the cache has no config.json of that revision (None: main)."""
    model = hfenv.hub_cache() / f"models--{model_id.replace('/', '--')}"
    commit = _commit(model, revision or "main")
    if commit is None:
        return None
    snapshot = model / "snapshots" / commit
    if not (snapshot / "config.json").is_file():
        return None
    return folder.read_model_folder(snapshot, f"Hugging Face cache, commit {commit[:7]}")


def _commit(model: Path, revision: str) -> str | None:
    if not _inside(model, model / "refs" / revision):
        return None
    reference = model / "refs" / revision
    if reference.is_file():
        return reference.read_text(encoding="ascii", errors="replace").strip()
    return revision if "/" not in revision and (model / "snapshots" / revision).is_dir() else None


def _inside(parent: Path, child: Path) -> bool:
    return os.path.commonpath([parent, os.path.normpath(child)]) == str(parent)
