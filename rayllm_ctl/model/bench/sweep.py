"""A sweep: variants of one service, which are deployed, measured and removed one after another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import MAX_SERVICE_NAME
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.model.text.yaml_text import flow

VariantState = Literal["measured", "failed", "rejected", "interrupted", "waiting"]
"""rejected: by the planner. failed: it did not become ready, or could not be measured. waiting: not measured yet."""

_DIGITS = 8
"""Hexadecimal digits at the end of a variant's name: few enough for KubeRay, enough to differ."""


@dataclass(frozen=True)
class Axis:
    """A field that a sweep varies. name: its path below spec. flag: what stands before a value on the command line.

    paths: the fields of the spec file that each of the values is written to.
    """

    name: str
    flag: str
    paths: tuple[Path, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Variant:
    """One service of a sweep. name: of the service. values: those of the varied fields, by the names of the axes."""

    name: str
    values: Mapping[str, Any]
    service: LLMService


@dataclass(frozen=True)
class VariantRecord:
    """The record of a variant. spec: its spec file as data; load: what it was, or is to be, measured with.

    code, message: why it was rejected or failed. gpus: at the fewest and at the most replicas.
    startup_seconds: from the apply until it was ready. result: as `bench run -o json` prints it.
    """

    variant: str
    values: Mapping[str, Any]
    state: VariantState
    spec: Mapping[str, Any]
    load: Mapping[str, Any]
    code: str = ""
    message: str = ""
    gpus: tuple[int, int] | None = None
    startup_seconds: float | None = None
    result: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "variant": self.variant,
            "values": dict(self.values),
            "state": self.state,
            "spec": dict(self.spec),
            "load": dict(self.load),
            "reason": {"code": self.code, "message": self.message} if self.message else None,
            "gpus": {"min": self.gpus[0], "max": self.gpus[1]} if self.gpus else None,
            "startupSeconds": self.startup_seconds,
            "result": self.result,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VariantRecord:
        """What `to_json` made. TypeError or KeyError if it is something else."""
        reason, gpus = data["reason"] or {"code": "", "message": ""}, data["gpus"]
        return cls(
            data["variant"], data["values"], data["state"], data["spec"], data["load"], reason["code"],
            reason["message"], (gpus["min"], gpus["max"]) if gpus else None, data["startupSeconds"], data["result"],
        )  # fmt: skip

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """The results of its loads; of a search the one at the highest rate that is good, none if there is none."""
        if self.result is None:
            return ()
        runs: Sequence[Mapping[str, Any]] = self.result["runs"]
        if "highestRate" not in self.result:
            return runs
        return [run for run in runs if run["load"]["rate"] == self.result["highestRate"]][-1:]


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep. service: the prefix of the variants' names. vary: the names of the axes."""

    service: str
    vary: tuple[str, ...]
    records: tuple[VariantRecord, ...] = field(default_factory=tuple)

    @property
    def failed(self) -> bool:
        """Whether a variant or a request failed, or no rate kept the limits."""
        return any(
            record.state == "failed"
            or (record.state == "measured" and not record.runs)
            or any(run["requests"]["failed"] for run in record.runs)
            for record in self.records
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "service": self.service,
            "vary": list(self.vary),
            "variants": [record.to_json() for record in self.records],
        }


def variant_name(service: str, values: Mapping[str, Any]) -> str:
    """The name of a variant's service: always the same for the same values of the same service."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{name_start(service)}{digest}"


def name_start(service: str) -> str:
    """The prefix of the names of all variants of a service."""
    return f"{service[: MAX_SERVICE_NAME - _DIGITS - 1].rstrip('-')}-"


def is_variant_name(name: str, service: str) -> bool:
    """Whether `name` may be that of a variant of the service."""
    digest = name.removeprefix(name_start(service))
    return digest != name and len(digest) == _DIGITS and set(digest) <= set("0123456789abcdef")


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each axis's name, where no other axis has the same: parallelism.tensor is tensor."""
    last = [name.rpartition(".")[2] for name in names]
    return {name: end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)}


def in_words(values: Mapping[str, Any]) -> str:
    """A variant for people: "tensor 2, replicas 1"."""
    short = short_names(tuple(values))
    return ", ".join(f"{short[name]} {shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """A value of a field as it is typed."""
    return value if isinstance(value, str) else flow(value)
