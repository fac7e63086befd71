"""The order of the sources: the first that has the model wins, and the answer says which it was.

1. the file or folder that the user names (--model-config)
2. the model's folder, where this machine sees it
3. the Hugging Face cache
4. the hub, unless --offline or HF_HUB_OFFLINE forbid it
5. the catalog; if the hub was asked in vain, with a warning that says why

A model that the catalog knows waits for the hub 1.5 s at most, so that a plan without a working network is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.catalog.sources import cache, folder, hfenv
from rayllm_ctl.catalog.sources.found import Checkpoint, FoundModel
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.problems import quoted
from rayllm_ctl.model.service import Model

if TYPE_CHECKING:
    from rayllm_ctl.catalog.sources.hub import HubError

_CONFIG_HINT = "--model-config PATH reads a config.json, or the directory that contains it"


def find(
    model: Model,
    *,
    model_config: Path | None = None,
    offline: bool = False,
    revision: str | None = None,
    any_architecture: bool = False,
) -> FoundModel:
    """The facts of `model`. `revision` overrides the model's own. any_architecture: from its size alone, where vLLM
    does not have its architecture.

    UsageError for a path that is wrong; UserError, naming what was tried, if no source has the model or what it has
    cannot be planned.
    """
    read = Checkpoint.sized if any_architecture else Checkpoint.found
    if model_config is not None:
        return read(folder.read(model_config))
    for path in (model.path, model.id):
        if path and Path(path).is_dir():
            return read(folder.read(Path(path)))
    unseen = f"{model.path} is not on this machine: planned with the config of {model.id}" if model.path else ""
    found = _by_name(model.id, revision or model.revision, offline, read)
    if not unseen:
        return found
    return FoundModel(found.facts, found.source, found.exact_bytes, found.chat_template, (*found.warnings, unseen))


def _by_name(
    model_id: str, revision: str | None, offline: bool, read: Callable[[Checkpoint], FoundModel]
) -> FoundModel:
    cached = cache.read(model_id, revision)
    if cached is not None:
        return read(cached)
    known = models.find(model_id)
    if offline or hfenv.offline():
        if known is None:
            raise UserError(
                f"model {model_id} is not in the catalog, and the Hugging Face Hub is not asked when offline",
                hint=(_nearest(model_id), _CONFIG_HINT),
            )
        return _from_catalog(known, revision, "")
    from rayllm_ctl.catalog.sources import hub

    try:
        patience = hub.IMPATIENT_SECONDS if known else hub.OVERALL_SECONDS
        return read(hub.read(model_id, revision, patience=patience))
    except hub.HubError as error:
        if error.kind == "revision" or known is None:
            raise _refused(error, model_id) from error
        return _from_catalog(known, revision, f"{error}: planned with the config in the catalog")


def _from_catalog(known: models.CatalogModel, revision: str | None, warning: str) -> FoundModel:
    warnings = [warning] if warning else []
    if revision:
        warnings.append(f"revision {quoted(revision)} was not read: the catalog has one revision of each model")
    return FoundModel(read_config(known.config), f"catalog ({known.source})", warnings=tuple(warnings))


def _refused(error: HubError, model_id: str) -> UserError:
    hints = {
        "gated": "accept the model's license on the Hub and set HF_TOKEN to a token that can read it",
        "rate-limited": "wait, or set HF_TOKEN: the limit is higher with a token",
        "offline": "check the network and HF_ENDPOINT",
        "broken": "try again later",
    }
    return UserError(str(error), hint=(hints.get(error.kind) or _nearest(model_id), _CONFIG_HINT))


def _nearest(model_id: str) -> str:
    names = models.nearest(model_id)
    return f"did you mean {' or '.join(names)}?" if names else "rayllm-ctl models"
