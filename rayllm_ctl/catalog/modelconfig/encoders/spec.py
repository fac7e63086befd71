"""What describes an encoder: its sizes, its block, the layers around the blocks, and the largest item it takes.

A row states these as data; read_encoder builds the encoder from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, encoder_block
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Choice, Entry, Expression, Scope
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Part, Split, VideoProfile


class Dense(NamedTuple):
    """`times` projections (or tables of `inputs` rows), which no format quantizes; without a split, on every rank."""

    inputs: Expression
    outputs: Expression
    bias: Choice = False
    split: Split = "none"
    float32: bool = False
    times: Expression = 1
    when: Choice = True

    def add(self, layer: LayerBuilder, scope: Scope) -> None:
        for _ in range(scope[self.times]):
            layer.linear(
                f"{self.inputs} to {self.outputs}",
                scope[self.inputs],
                scope[self.outputs],
                self.split,
                bias=scope.holds(self.bias),
                quantizable=False,
                float32=self.float32,
            )


class Norm(NamedTuple):
    """`times` norms, or other vectors of so many elements."""

    size: Expression
    times: Expression = 1
    bias: Choice = False
    when: Choice = True

    def add(self, layer: LayerBuilder, scope: Scope) -> None:
        layer.norm(scope[self.size], scope[self.times], bias=scope.holds(self.bias))


class Mlp(NamedTuple):
    """A gated feed-forward block."""

    inputs: Expression
    middle: Expression
    outputs: Expression
    when: Choice = True

    def add(self, layer: LayerBuilder, scope: Scope) -> None:
        middle = Part(scope[self.middle])
        layer.linear("gate_up_proj", scope[self.inputs], (middle, middle), quantizable=False)
        layer.linear("down_proj", middle.size, scope[self.outputs], "row", quantizable=False)


class Attention(NamedTuple):
    """Attention from `inputs` features to `outputs`, divided by heads."""

    inputs: Expression
    outputs: Expression
    heads: Expression
    kv_heads: Expression
    fused: bool = True
    when: Choice = True

    def add(self, layer: LayerBuilder, scope: Scope) -> None:
        heads, kv_heads, outputs = scope[self.heads], scope[self.kv_heads], scope[self.outputs]
        head = max(1, outputs // heads)
        parts = (Part(heads, head), Part(kv_heads, head), Part(kv_heads, head))
        for each in (parts,) if self.fused else ((part,) for part in parts):
            layer.linear("attention", scope[self.inputs], each, bias=True, quantizable=False)
        layer.linear("proj", heads * head, outputs, "row", bias=True, input_units=heads, quantizable=False)


Step = Dense | Norm | Mlp | Attention


def pair(
    inputs: Expression,
    middle: Expression,
    outputs: Expression,
    *,
    bias: Choice = True,
    split: bool = True,
    times: Expression = 1,
) -> tuple[Dense, Dense]:
    """A projector of two layers, the first split by outputs and the second by inputs."""
    first = Dense(inputs, middle, bias, "column", times=times)
    second = Dense(middle, outputs, bias, "row", times=times)
    return (first, second) if split else (first._replace(split="none"), second._replace(split="none"))


def patches_in(*, bias: Choice = True) -> Dense:
    """The projection of patches."""
    return Dense("values", "width", bias)


class Block(NamedTuple):
    """One transformer block, as in blocks.encoder_block. `beside`: what else it holds."""

    gated: Choice = False
    bias: Choice = True
    mlp_bias: Choice | None = None
    out_bias: Choice | None = None
    norm_bias: Choice = True
    norms: int = 2
    split: Choice = True
    split_attention: Choice = True
    split_mlp: bool = True
    inner: Expression = 0
    kv_heads: Expression = 0
    key_bias: Choice = True
    head_norms: bool = False
    beside: tuple[Norm, ...] = ()


Limit = Callable[[Scope], tuple[int, int, int]]
"""(tokens, patches, input values) of the largest item that vLLM profiles."""


class EncoderSpec(NamedTuple):
    """A row. The rest is as in MultiModalEncoder.

    block: of which there are `depth`, stated as a transformer's or step by step. others: further blocks, each with its
    number. stem: what stands around the blocks. projector: what follows.
    """

    sizes: Mapping[str, Entry]
    limit: Limit
    stem: tuple[Step, ...] = ()
    projector: tuple[Step, ...] = ()
    block: Block | tuple[Step, ...] = Block()
    others: tuple[tuple[Block | tuple[Step, ...], Expression], ...] = ()
    modality: str = "image"
    sharded: Choice = True
    masked: bool = False
    kept: Callable[[Scope], int] | None = None
    levels: Expression = 0
    video: Callable[[Scope], VideoProfile] | None = None


def of_tokens(tokens: Expression) -> Limit:
    """An image in its own shape, of so many tokens."""

    def limit(scope: Scope) -> tuple[int, int, int]:
        patches = scope[tokens] * scope["merge"] ** 2
        return scope[tokens], patches, patches * scope["values"]

    return limit


def of_patches(patches: Expression) -> Limit:
    """An image in its own shape, of so many patches."""
    return lambda scope: (scope[patches] // scope["merge"] ** 2, scope[patches], scope[patches] * scope["values"])


def of_pixels(pixels: int) -> Limit:
    """An image in its own shape, of so many pixels."""

    def limit(scope: Scope) -> tuple[int, int, int]:
        patches = pixels // scope["patch"] ** 2
        return patches // scope["merge"] ** 2, patches, 3 * pixels

    return limit


def of_crops(crops: Expression) -> Limit:
    """So many crops (tiles) of the encoder's own image size, the overview among them."""

    def limit(scope: Scope) -> tuple[int, int, int]:
        patches = scope[crops] * scope["grid"]
        return patches // scope["merge"] ** 2, patches, scope[crops] * scope["pixels"]

    return limit


def of_queries(tokens: Expression) -> Limit:
    """One image of the encoder's own size, condensed to a fixed number of tokens."""
    return lambda scope: (scope[tokens], scope["grid"], scope["pixels"])


def read_encoder(spec: EncoderSpec, source: Source) -> MultiModalEncoder:
    """The encoder that `spec` describes, with the sizes of this config."""
    scope = Scope(source, spec.sizes)
    stem = source.builder.single("vision_tower.")
    add_steps((*spec.stem, *spec.projector), stem, scope)
    blocks = ((spec.block, "depth"), *spec.others) if "depth" in spec.sizes else ()
    tokens, patches, pixels = spec.limit(scope)
    return MultiModalEncoder(
        spec.modality,
        (*((_layer(block, scope), scope[count]) for block, count in blocks), (stem.layer(), 1)),
        scope["width"],
        tokens,
        patches,
        pixels,
        sharded=scope.holds(spec.sharded),
        masked=spec.masked,
        kept=spec.kept(scope) if spec.kept else 0,
        levels=scope[spec.levels],
        video=spec.video(scope) if spec.video else None,
    )


def add_steps(steps: tuple[Step, ...], layer: LayerBuilder, scope: Scope) -> None:
    for step in steps:
        if scope.holds(step.when):
            step.add(layer, scope)


def _layer(block: Block | tuple[Step, ...], scope: Scope) -> Layer:
    if not isinstance(block, Block):
        steps = scope.source.builder.single("vision_tower.")
        add_steps(block, steps, scope)
        return steps.layer()
    layer = encoder_block(
        scope.source.builder,
        scope["width"],
        scope["heads"],
        scope["middle"],
        gated=scope.holds(block.gated),
        bias=scope.holds(block.bias),
        mlp_bias=None if block.mlp_bias is None else scope.holds(block.mlp_bias),
        out_bias=None if block.out_bias is None else scope.holds(block.out_bias),
        norm_bias=scope.holds(block.norm_bias),
        norms=block.norms,
        split=scope.holds(block.split),
        split_attention=scope.holds(block.split_attention),
        split_mlp=block.split_mlp,
        inner=scope[block.inner],
        kv_heads=scope[block.kv_heads],
        key_bias=scope.holds(block.key_bias),
        head_norms=block.head_norms,
    )
    beside = scope.source.builder.single()
    add_steps(block.beside, beside, scope)
    return replace(layer, vectors=layer.vectors + tuple(beside.vectors)) if block.beside else layer
