"""The order of the sources: the first that has the model wins, and the answer says which it was.

1. the file or folder that the user names: --model-config, the model's folder (spec.model.path)
2. the catalog
3. the Hugging Face cache, then the hub, unless --offline or HF_HUB_OFFLINE forbid it

What the catalog has does not depend on the machine, nor on the day. The user can ask for the cache and the hub instead.
Where facts must not depend on the machine (render), what the catalog lacks is looked up there only if asked for.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.catalog.sources import cache, folder, hfenv
from rayllm_ctl.catalog.sources.found import FoundModel
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import Model
from rayllm_ctl.model.text.problems import quoted

if TYPE_CHECKING:
    from rayllm_ctl.catalog.sources.hub import HubError

CONFIG_HINT = "--model-config PATH    # a config.json, or the directory that contains it"
_HUB_HINT = "--from-hub    # reads it from the Hugging Face cache or Hub"


def find(model: Model, sources: FactSources, *, revision: str | None = None) -> FoundModel:
    """The facts of `model`. `revision` overrides the model's own.

    UsageError for a path that is wrong; UserError, naming what was tried, if no source has the model or what it has
    cannot be planned.
    """
    if sources.model_config is not None:
        return folder.read_model_folder(sources.model_config).found()
    if model.path and Path(model.path).is_dir():
        return folder.read_model_folder(Path(model.path)).found()
    unseen = f"{model.path} is not on this machine: planned with the config of {model.id}" if model.path else ""
    found = _by_name(model.id, revision or model.revision, sources)
    if not unseen:
        return found
    return FoundModel(found.facts, found.source, found.exact_bytes, found.chat_template, (*found.warnings, unseen))


def _by_name(model_id: str, revision: str | None, sources: FactSources) -> FoundModel:
    known = models.find_model(model_id)
    if known is not None and not sources.from_hub:
        return _from_catalog(known, revision)
    if sources.named_only and not sources.from_hub:
        raise UserError(
            f"model {model_id} is not in the catalog, and nothing else is read unless it is asked for: the manifests "
            "would depend on it",
            hint=(_nearest(model_id), _HUB_HINT, CONFIG_HINT),
        )
    cached = cache.read_cache(model_id, revision)
    if cached is not None:
        return cached.found()
    if sources.offline or hfenv.offline():
        where = "the Hugging Face cache" if known else "the catalog"
        instead = "leave out --from-hub: the catalog has the model" if known else _nearest(model_id)
        raise UserError(
            f"model {model_id} is not in {where}, and the Hugging Face Hub is not asked when offline",
            hint=(instead, CONFIG_HINT),
        )
    hfenv.endpoint()  # the package cannot even be imported with an invalid one
    try:
        with warnings.catch_warnings(action="ignore"):  # of variables for downloads
            from rayllm_ctl.catalog.sources import hub
    except ValueError as error:
        hint = "HF_HUB_DOWNLOAD_TIMEOUT and HF_HUB_ETAG_TIMEOUT are whole numbers of seconds, or not set"
        raise UsageError(f"huggingface-hub rejects a variable of the environment: {error}", hint=hint) from error
    try:
        return hub.read(model_id, revision).found()
    except hub.HubError as error:
        raise _refused(error, model_id, known=known is not None) from error


def _from_catalog(known: models.CatalogModel, revision: str | None) -> FoundModel:
    unread = f"revision {quoted(revision or '')} was not read: the catalog has one of each model (--from-hub reads it)"
    warnings = (unread,) if revision else ()
    return FoundModel(read_config(known.config), f"catalog ({known.source})", warnings=warnings)


def _refused(error: HubError, model_id: str, *, known: bool) -> UserError:
    hints = {
        "gated": "accept the model's license on the Hub and set HF_TOKEN to a token that can read it; the pods need it "
        "too: --hf-token-secret NAME/KEY",
        "rate-limited": "wait, or set HF_TOKEN: the limit is higher with a token",
        "offline": "check the network and HF_ENDPOINT",
        "broken": "try again later",
        "token": "set HF_TOKEN to a token from https://huggingface.co/settings/tokens, or unset it",
    }
    without = ("leave out --from-hub: the catalog has the model",) if known else ()
    misspelt = error.kind == "offline" and not known and models.nearest_models(model_id)
    meant = (_nearest(model_id),) if misspelt else ()
    return UserError(str(error), hint=(*meant, hints.get(error.kind) or _nearest(model_id), *without, CONFIG_HINT))


def _nearest(model_id: str) -> str:
    names = models.nearest_models(model_id)
    return f"did you mean {' or '.join(names)}?" if names else "rayllm-ctl models"
