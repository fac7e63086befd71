"""What a source returns, and the checks that all sources share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import ModelFacts

MAX_JSON_BYTES = 5_000_000
"""No config.json, tokenizer_config.json or index of tensors is near it (the largest known index has 2.3 MB)."""

MAX_HEADER_BYTES = 100_000_000
"""The limit that the safetensors library itself sets to a header."""


@dataclass(frozen=True)
class FoundModel:
    """A model's facts and where they are from.

    exact_bytes: size of all tensors of the checkpoint, None if only config.json was seen. chat_template: whether the
    tokenizer has one, None if unknown. warnings: what a user should know of how this was found.
    """

    facts: ModelFacts
    source: str
    exact_bytes: int | None = None
    chat_template: bool | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint as far as they were read; `source` is where."""

    config: Mapping[str, Any]
    source: str
    quantization: Mapping[str, Any] | None = None
    exact_bytes: int | None = None
    chat_template: bool | None = None

    def found(self, *warnings: str) -> FoundModel:
        """With the facts that follow from the config. UserError if it cannot be planned."""
        try:
            facts = read_config(self.config, hf_quant_config=self.quantization)
        except UserError as error:
            raise UserError(f"{error.message} ({self.source})", hint=error.hints, exit_code=error.exit_code) from error
        return FoundModel(facts, self.source, self.exact_bytes, self.chat_template, warnings)


def parse_object(content: bytes, name: str) -> dict[str, Any]:
    """The JSON object in `content`. UserError, naming the file, if it is none."""
    try:
        value = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not valid UTF-8") from error
    except ValueError as error:
        raise UserError(f"{name} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise UserError(f"{name} is nested too deeply") from error
    if not isinstance(value, dict):
        raise UserError(f"{name} is not a JSON object")
    return value


def has_template(tokenizer_config: Mapping[str, Any]) -> bool:
    """Whether a tokenizer_config.json holds a chat template."""
    return bool(tokenizer_config.get("chat_template"))


def indexed_bytes(index: Mapping[str, Any]) -> int | None:
    """The size of all tensors that a model.safetensors.index.json states; None if it states none."""
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return int(size) if isinstance(size, (int, float)) and not isinstance(size, bool) and size > 0 else None
