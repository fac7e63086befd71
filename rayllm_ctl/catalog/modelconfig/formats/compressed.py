"""quantization_config of compressed-tensors (LLM Compressor): groups of modules, each stored in a way of its own.

Read in vLLM 0.29 and 0.33 (quantization/compressed_tensors/compressed_tensors.py and its schemes).
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import MOST_RULES, Ignored
from rayllm_ctl.catalog.modelconfig.quantizer import MXFP4, MXFP8, NVFP4, Quantizer, QuantizerRule
from rayllm_ctl.model.plan.facts import Scheme

_METHOD = "compressed-tensors"

_EXPERTS = ("FusedMoE", "RoutedExperts")
_MX_GROUP = 32


def read_compressed(fields: Fields) -> Quantizer:
    groups = fields.child("config_groups")
    rules: list[QuantizerRule] = []
    head = False  # the target Linear does not reach the output head
    for name in groups.entries(MOST_RULES):
        group = groups.child(name)
        targets = group.texts("targets")
        if targets and all(target.endswith(("Attention", "Embedding")) for target in targets):
            continue  # of the cache, which has a scheme of its own, and of embeddings
        head = head or "lm_head" in Ignored(targets)
        layout = group.text("format", default=fields.text("format"))
        scheme = _weights(group.child("weights"), group.child("input_activations"), layout)
        rules.append(QuantizerRule(scheme, _targets(targets)))
    rules.sort(key=lambda rule: rule.targets is None)
    layout = fields.text("format", default=_METHOD)
    return Quantizer(
        _METHOD,
        tuple(rules),
        Ignored(fields.texts("ignore")),
        description=f"{_METHOD} {layout}"[:60],
        kv_cache_dtype="fp8" if fields.child("kv_cache_scheme").integer("num_bits", default=0, low=0) == 8 else None,
        head=head,
        needs=frozenset({"sparse-24"}) if fields.child("sparsity_config").texts("targets") else frozenset(),
    )


def _targets(targets: tuple[str, ...]) -> Ignored | None:
    """The modules of a group; None: all, which the class Linear stands for."""
    classes = [target for target in targets if "." not in target and ":" not in target]
    if not targets or any(name not in _EXPERTS for name in classes):
        return None
    return Ignored((*(target for target in targets if target not in _EXPERTS), *(["re:.*experts"] if classes else [])))


def _weights(weights: Fields, activations: Fields, layout: str) -> Scheme:
    """How a group's weights are stored."""
    bits = weights.integer("num_bits", default=8, high=16)
    floating = weights.text("type", default="int") == "float"
    strategy = weights.text("strategy", default="group" if weights.has("group_size") else "tensor")
    size = weights.integer("group_size", default=0, low=-1)
    group = {"tensor": -1, "channel": 0, "block": 0}.get(strategy, max(size, 0))
    # dynamic is true, false or, of nvfp4, "local": the scales of groups are computed, the one above them is stored.
    static = bool(activations) and activations.raw("dynamic") is not True
    if bits == 4 and floating:
        if layout.startswith("mxfp4") or size == _MX_GROUP:
            return replace(MXFP4, method=_METHOD)
        return replace(NVFP4, method=_METHOD, input_scale=bool(activations), weight_only=not activations)
    if bits == 8 and floating and group == _MX_GROUP:
        return replace(MXFP8, method=_METHOD)
    block = weights.integers("block_structure", low=1) if strategy == "block" else ()
    if strategy == "block" and len(block) != 2:
        block = (128, 128)
    return Scheme(
        _METHOD,
        bits,
        floating=floating,
        group=group,
        block=(block[0], block[1]) if block else None,
        scale_bytes=2 if group > 0 else 4,
        zero_points=not weights.flag("symmetric", default=True),
        input_scale=static,
        activation_order=str(weights.raw("actorder") or "").lower() in ("group", "dynamic", "true"),
        weight_only=not activations,
    )
