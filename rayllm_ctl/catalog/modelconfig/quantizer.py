"""How a checkpoint is quantized, module by module, and the schemes that several formats share."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import Ignored
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import Quantization, Scheme

NVFP4 = Scheme("modelopt_fp4", 4, floating=True, group=16, scale_bytes=1, global_scale=True, input_scale=True)
MXFP4 = Scheme("mxfp4", 4, floating=True, group=32, scale_bytes=1)
MXFP8 = Scheme("modelopt", 8, floating=True, group=32, scale_bytes=1)
FP8_TENSOR = Scheme("fp8", 8, floating=True, group=-1)
FP8_BLOCK = Scheme("fp8", 8, floating=True, block=(128, 128))


@dataclass(frozen=True)
class QuantizerRule:
    """A scheme for the modules whose names match one of `targets` (None: every linear layer)."""

    scheme: Scheme | None
    targets: Ignored | None = None


@dataclass(frozen=True)
class Quantizer:
    """Answers how a module is stored. `experts_only`: formats that quantize nothing but routed experts. needs: as in
    Quantization."""

    method: str
    rules: tuple[QuantizerRule, ...]
    ignored: Ignored
    description: str
    experts_only: bool = False
    head: bool = False
    kv_cache_dtype: str | None = None
    assumed: str = ""
    needs: frozenset[str] = frozenset()

    @property
    def by_layer(self) -> bool:
        """Whether two layers of one kind may be stored differently."""
        return self.ignored.by_layer or any(rule.targets is not None for rule in self.rules)

    @property
    def cost(self) -> int:
        """Of the look-up of a module, as in Ignored."""
        return self.ignored.cost + sum(1 + rule.targets.cost for rule in self.rules if rule.targets is not None)

    def scheme(self, names: tuple[str, ...], fused: str = "", *, experts: bool = False) -> Scheme | None:
        """The scheme of a module that vLLM calls `fused`; `names` are the checkpoint's modules in it. None: not
        quantized."""
        if self.experts_only and not experts:
            return None
        named = names[:1] if experts else (*names, fused)
        if any(name in self.ignored for name in names) or any(map(self.ignored.has_part_of, named)):
            return None
        for rule in self.rules:
            if rule.targets is None or any(name in rule.targets for name in (*names, fused)):
                return rule.scheme
        return None

    def facts(self) -> Quantization:
        bits = [rule.scheme.bits for rule in self.rules if rule.scheme]
        return Quantization(
            self.method, self.description, min(bits, default=16), self.kv_cache_dtype, self.assumed, self.needs
        )


def assumed_sizes(fields: Fields, bits: int, group: int, *names: tuple[str, ...]) -> str:
    """What is taken for granted of integers in groups, for notes. names: of the fields with the bits and the group."""
    stated_bits, stated_group = (fields.has(*either) for either in names)
    sizes = ("" if stated_bits else f"{bits} bits", "" if stated_group else f"groups of {group}")
    return " and ".join(filter(None, sizes))


def fp8(fields: Fields) -> tuple[Scheme, str]:
    """vLLM's own fp8 format, and what it is called."""
    block = fields.integers("weight_block_size", low=1)
    static = fields.text("activation_scheme", default="dynamic") == "static"
    scheme = FP8_BLOCK if block else replace(FP8_TENSOR, input_scale=static)
    if len(block) == 2:
        scheme = replace(scheme, block=(block[0], block[1]))
    return scheme, f"fp8 in blocks of {block[0]}x{block[-1]}" if block else "fp8 per tensor"
