"""Speculative decoding with a model of its own that guesses ahead: what it adds to the last pipeline stage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.memory.shards import ShardSettings, Stage, stage_tensors

DraftKind = Literal["draft_model", "eagle", "eagle3"]

_WITHOUT_A_MODEL = frozenset({"ngram", "[ngram]", "ngram_gpu", "suffix"})
"""Methods that guess from what was said before; the first two also go by the name of the model."""

_HEADS_OF_OTHER_FORMS = ("medusa", "dflash", "dspark", "mlp_speculator", "mlp-speculator", "custom_class")


@dataclass(frozen=True)
class Speculation:
    """vLLM's speculative_config. model: what guesses ahead where it is a model of its own, else "".

    kind: how that one is built; None if it is not known here. tokens: guessed ahead. tensor: the draft model's own
    TP (0: the model's). own_layers: the model's multi-token-prediction layers guess.
    """

    model: str = ""
    kind: DraftKind | None = None
    tokens: int = 0
    tensor: int = 0
    own_layers: bool = False


def speculation(args: Mapping[str, Any]) -> Speculation:
    """What the engine arguments say of speculative decoding, the method told from the name as vLLM does (0.29)."""
    config = as_mapping(args.get("speculative_config"))
    method, model = str(config.get("method") or ""), config.get("model")
    tokens, tensor = as_count(config.get("num_speculative_tokens")), as_count(config.get("draft_tensor_parallel_size"))
    if method.endswith("mtp"):
        return Speculation(tokens=tokens, own_layers=True)
    if not isinstance(model, str) or not model or {method, model} & _WITHOUT_A_MODEL:
        return Speculation(tokens=tokens)
    return Speculation(model, _kind(method, model.lower()), tokens, tensor)


def speculative_method(args: Mapping[str, Any]) -> str:
    """vLLM's name for how tokens are guessed ahead, told from the model's name where none is given; "": not at all."""
    config = as_mapping(args.get("speculative_config"))
    if not config:
        return ""
    method, guessing = str(config.get("method") or ""), speculation(args)
    if guessing.own_layers:
        return "mtp"
    return method or guessing.kind or ("custom_class" if guessing.model else "ngram")


def _kind(method: str, name: str) -> DraftKind | None:
    if method in ("eagle", "eagle3"):
        return "eagle" if method == "eagle" else "eagle3"
    if method not in ("", "draft_model"):
        return None
    if "eagle-" in name:
        return "eagle"
    if "eagle3" in name:
        return "eagle3"
    return None if any(word in name for word in _HEADS_OF_OTHER_FORMS) else "draft_model"


@dataclass(frozen=True)
class Draft:
    """A draft model: its facts and how vLLM builds it."""

    facts: ModelFacts
    kind: DraftKind

    def tensors(self, shape: ShardSettings) -> Iterator[int]:
        """Bytes of every tensor on one rank.

        A draft model is whole. Heads of EAGLE share the model's embedding once they are loaded; those of EAGLE 1 its
        output head too, and they join two hidden states by a projection that no config mentions (models/llama_eagle).
        """
        facts = self.facts
        whole, headed = self.kind == "draft_model", self.kind != "eagle"
        shape = replace(shape, online=None)  # what vLLM quantizes while loading is the model only
        yield from stage_tensors(facts, Stage(facts.layers, first=whole, last=headed), shape, encoders=False)
        if self.kind == "eagle":
            yield 2 * facts.hidden_size * facts.hidden_size * shape.dtype_bytes


def as_mapping(value: object) -> Mapping[str, Any]:
    """A mapping, or one written as JSON; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def as_count(value: object) -> int:
    """A whole number above 0; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 0


_MOST = 2**62
