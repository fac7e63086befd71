"""Limits of the fields of spec.storage.model and spec.storage.caches."""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.model.spec import model_storage
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.text import patterns
from rayllm_ctl.specfile.crd.constraints import IMAGE_REFERENCE, OBJECT, PART, SET, UNITS, Constraints, shape

_QUANTITY = UNITS[Unit.QUANTITY]["pattern"].removeprefix("^").removesuffix("$")
_FOLDER: Constraints = {"maxLength": 1024, "pattern": rf"^{PART.removeprefix('/')}(?:{PART})*$"}

STORAGE_LIMITS: Mapping[tuple[type, str], Constraints] = {
    (model_storage.NewClaim, "size"): {"maxLength": 32, "pattern": rf"^(?:{model_storage.AUTO_SIZE}|{_QUANTITY})$"},
    (model_storage.NewClaim, "storage_class"): OBJECT,
    (model_storage.NewClaim, "access_modes"): {**SET, "minItems": 1, "maxItems": 4},
    (model_storage.HubCache, "cache"): OBJECT,
    (model_storage.ModelClaim, "name"): OBJECT,
    (model_storage.ModelClaim, "path"): _FOLDER,
    (model_storage.MirrorClaim, "name"): OBJECT,
    (model_storage.MirrorClaim, "path"): _FOLDER,
    (model_storage.ObjectStore, "region"): shape(patterns.REGION, 63),
    (model_storage.Mirror, "region"): shape(patterns.REGION, 63),
    (model_storage.ModelImage, "reference"): IMAGE_REFERENCE,
    (model_storage.ModelImage, "path"): _FOLDER,
    (model_storage.Caches, "compile"): OBJECT,
}
"""As FIELD_LIMITS. Addresses have none: they may have credentials, which an error about a pattern would repeat."""
