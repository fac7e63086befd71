"""What layers are made of, named and fused as vLLM does it (model_executor/layers)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from rayllm_ctl.catalog.modelconfig.fields import COMPLETE_CONFIG
from rayllm_ctl.catalog.modelconfig.quantizer import Quantizer
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.facts import Cache, Experts, Layer, Linear, Part, Scheme, Split, Vector

MOST_LAYERS = 1024
"""No model has more: a larger count is a damaged config, rejected before memory is spent on it."""

_MOST_COST = 1_000_000
"""Of the look-up of a module in each layer. A list of 500 expressions for 60 layers costs about 100,000."""


class Builder:
    """Makes the layers of one model, stored as its checkpoint quantizes them."""

    def __init__(self, quantizer: Quantizer | None) -> None:
        self.quantizer = quantizer

    def layers(
        self, count: int, kind: Callable[[int], Hashable], make: Callable[[int, LayerBuilder], None]
    ) -> tuple[Layer, ...]:
        """`count` layers; those of one kind share one object unless the checkpoint quantizes them differently."""
        by_layer = self.quantizer is not None and self.quantizer.by_layer
        if self.quantizer is not None and by_layer and count * self.quantizer.cost > _MOST_COST:
            raise UsageError(
                f"config.json: quantization_config has too many expressions for {count} layers",
                hint="--model-config FILE    # a copy of config.json with fewer of them",
            )
        made: list[Layer] = []
        seen: dict[Layer, Layer] = {}
        kinds: dict[Hashable, Layer] = {}
        for index in range(count):
            key = kind(index)
            if not by_layer and key in kinds:
                made.append(kinds[key])
                continue
            started = LayerBuilder(self, f"layers.{index}.")
            make(index, started)
            layer = started.layer()
            layer = seen.setdefault(layer, layer)
            kinds[key] = layer
            made.append(layer)
        return tuple(made)

    def single(self, path: str = "") -> LayerBuilder:
        """A layer that stands outside the numbered ones."""
        return LayerBuilder(self, path)


class LayerBuilder:
    """Collects what one layer holds. `path` is where it stands in the checkpoint, for ignore lists.

    passes: as in Layer.
    """

    def __init__(self, builder: Builder, path: str) -> None:
        self.builder = builder
        self.path = path
        self.linears: list[Linear] = []
        self.experts_: list[Experts] = []
        self.vectors: list[Vector] = []
        self.caches: list[Cache] = []
        self.passes = 1

    def layer(self) -> Layer:
        return Layer(
            tuple(self.linears), tuple(self.experts_), tuple(self.vectors), tuple(self.caches), passes=self.passes
        )

    def scheme(self, names: Iterable[str], *, fused: str = "", experts: bool = False) -> Scheme | None:
        quantizer = self.builder.quantizer
        if quantizer is None:
            return None
        return quantizer.scheme(tuple(self.path + name for name in names), self.path + fused, experts=experts)

    def linear(
        self,
        name: str,
        inputs: int,
        parts: int | tuple[Part, ...],
        split: Split = "column",
        *,
        bias: bool = False,
        shards: tuple[str, ...] = (),
        quantizable: bool = True,
        input_units: int = 0,
        float32: bool = False,
    ) -> None:
        """One linear layer. `shards` are the checkpoint's names of what it fuses, siblings of its last part."""
        whole = (Part(parts),) if isinstance(parts, int) else parts
        parent = name.rpartition(".")[0]
        names = tuple(f"{parent}.{shard}" if parent else shard for shard in shards) or (name,)
        scheme = self.scheme(names, fused=name) if quantizable else None
        if inputs < 1 or any(part.size < 1 for part in whole):
            raise UsageError(f"config.json: its sizes leave nothing of {name}")
        self.linears.append(Linear(name, inputs, whole, split, bias, scheme, quantizable, input_units, float32))

    def norm(self, size: int, count: int = 1, *, bias: bool = False) -> None:
        self.vectors.extend([Vector(size)] * (count * (2 if bias else 1)))

    def mlp(
        self,
        hidden: int,
        intermediate: int,
        *,
        gated: bool = True,
        bias: bool = False,
        out_bias: bool = False,
        prefix: str = "mlp.",
        names: tuple[str, str] = ("gate_up_proj", "down_proj"),
        shards: tuple[str, ...] = ("gate_proj", "up_proj"),
        split: bool = True,
        quantizable: bool = True,
    ) -> None:
        """A feed-forward block: gate and up fused (or one projection in), then down. `out_bias`: of down alone."""
        parts = (Part(intermediate), Part(intermediate)) if gated else (Part(intermediate),)
        inward = shards if gated else ()
        first: Split = "column" if split else "none"
        second: Split = "row" if split else "none"
        self.linear(prefix + names[0], hidden, parts, first, bias=bias, shards=inward, quantizable=quantizable)
        self.linear(prefix + names[1], intermediate, hidden, second, bias=bias or out_bias, quantizable=quantizable)

    def experts(
        self,
        hidden: int,
        intermediate: int,
        count: int,
        top_k: int,
        *,
        gated: bool = True,
        bias: bool = False,
        name: str = "mlp.experts",
        correction: bool = False,
        quantizable: bool = True,
    ) -> None:
        """Routed experts. `correction`: the float32 score bias of DeepSeek's routing."""
        if top_k > count:
            raise UsageError(
                f"config.json: {top_k} experts per token are more than the {count} experts of a layer",
                hint=COMPLETE_CONFIG,
            )
        if correction:
            self.vectors.append(Vector(count, float32=True))
        shards = (name, f"{name}.0.gate_proj", f"{name}.0.up_proj", f"{name}.0.down_proj", f"{name}.0.w1")
        scheme = self.scheme(shards, experts=True) if quantizable else None
        self.experts_.append(Experts(count, top_k, hidden, intermediate, gated, bias, scheme, name, quantizable))
