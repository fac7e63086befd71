"""What describes an encoder: its sizes, its block, the layers around the blocks, and the largest item it takes.

A row states these as data; read_encoder builds the encoder from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, Expression, SizeChoice, SizeEntry
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.model.plan.facts import Layer, MultiModalEncoder, Part, Split, Vector, VideoProfile


class Dense(NamedTuple):
    """`times` projections (or tables of `inputs` rows), which no format quantizes; without a split, on every rank."""

    inputs: Expression
    outputs: Expression
    bias: SizeChoice = False
    split: Split = "none"
    float32: bool = False
    times: Expression = 1
    when: SizeChoice = True

    def add(self, layer: LayerBuilder, scope: EncoderScope) -> None:
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
    bias: SizeChoice = False
    when: SizeChoice = True

    def add(self, layer: LayerBuilder, scope: EncoderScope) -> None:
        layer.norm(scope[self.size], scope[self.times], bias=scope.holds(self.bias))


class Mlp(NamedTuple):
    """A gated feed-forward block."""

    inputs: Expression
    middle: Expression
    outputs: Expression
    bias: bool = False
    when: SizeChoice = True

    def add(self, layer: LayerBuilder, scope: EncoderScope) -> None:
        middle = Part(scope[self.middle])
        layer.linear("gate_up_proj", scope[self.inputs], (middle, middle), bias=self.bias, quantizable=False)
        layer.linear("down_proj", middle.size, scope[self.outputs], "row", bias=self.bias, quantizable=False)


class Attention(NamedTuple):
    """Attention from `inputs` features to `outputs`, divided by heads. key, value: features of a head, if stated."""

    inputs: Expression
    outputs: Expression
    heads: Expression
    kv_heads: Expression
    key: Expression = 0
    value: Expression = 0
    fused: bool = True
    when: SizeChoice = True

    def add(self, layer: LayerBuilder, scope: EncoderScope) -> None:
        heads, kv_heads, outputs = scope[self.heads], scope[self.kv_heads], scope[self.outputs]
        key = scope[self.key] or max(1, outputs // heads)
        value = scope[self.value] or key
        parts = (Part(heads, key), Part(kv_heads, key), Part(kv_heads, value))
        for each in (parts,) if self.fused else ((part,) for part in parts):
            layer.linear("attention", scope[self.inputs], each, bias=True, quantizable=False)
        layer.linear("proj", heads * value, outputs, "row", bias=True, input_units=heads, quantizable=False)


class Block(NamedTuple):
    """A transformer block of `width`, `heads` and `middle` features.

    mlp_bias, out_bias: of the feed-forward block and of the attention's output, where they differ from `bias`.
    key_bias: False where queries and values have a bias and keys have none. inner: width of the attention where it is
    not the block's. kv_heads: of grouped-query attention. head_norms: queries and keys are normalized head by head.
    """

    gated: SizeChoice = False
    bias: SizeChoice = True
    mlp_bias: SizeChoice | None = None
    out_bias: SizeChoice | None = None
    norm_bias: SizeChoice = True
    norms: int = 2
    split_attention: SizeChoice = True
    split_mlp: bool = True
    inner: Expression = 0
    kv_heads: Expression = 0
    key_bias: bool = True
    head_norms: bool = False
    when: SizeChoice = True

    def add(self, layer: LayerBuilder, scope: EncoderScope) -> None:
        width, bias, kv_heads = scope["width"], scope.holds(self.bias), scope[self.kv_heads]
        inner = scope[self.inner] or width
        heads = scope["heads"] if inner % scope["heads"] == 0 else 1
        head = inner // heads
        keys = Part(kv_heads, head, replicable=True) if kv_heads else Part(heads, head)
        split: tuple[Split, Split] = ("column", "row") if scope.holds(self.split_attention) else ("none", "none")
        parts = (Part(heads, head), keys, keys)
        layer.linear("attn.qkv", width, parts, split[0], bias=bias and self.key_bias, quantizable=False)
        if bias and not self.key_bias:
            layer.vectors.append(Vector(head * (heads + keys.units)))
        if self.head_norms:
            layer.norm(head, 2)
        out_bias = bias if self.out_bias is None else scope.holds(self.out_bias)
        layer.linear("attn.proj", inner, width, split[1], bias=out_bias, input_units=heads, quantizable=False)
        mlp_bias, gated = bias if self.mlp_bias is None else scope.holds(self.mlp_bias), scope.holds(self.gated)
        layer.mlp(width, scope["middle"], gated=gated, bias=mlp_bias, split=self.split_mlp, quantizable=False)
        layer.norm(width, self.norms, bias=scope.holds(self.norm_bias))


WHOLE = Block(split_attention=False, split_mlp=False)
"""A block that every rank holds whole."""

Step = Dense | Norm | Mlp | Attention | Block
Steps = tuple[Step, ...]


def pair(
    inputs: Expression,
    middle: Expression,
    outputs: Expression,
    *,
    bias: SizeChoice = True,
    split: bool = True,
    times: Expression = 1,
) -> tuple[Dense, Dense]:
    """A projector of two layers, the first split by outputs and the second by inputs."""
    first = Dense(inputs, middle, bias, "column", times=times)
    second = Dense(middle, outputs, bias, "row", times=times)
    return (first, second) if split else (first._replace(split="none"), second._replace(split="none"))


def patches_in(*, bias: SizeChoice = True) -> Dense:
    """The projection of patches."""
    return Dense("values", "width", bias)


Limit = tuple[Expression, Expression, Expression] | Callable[[EncoderScope], tuple[int, int, int]]
"""(tokens, patches, input values) of the largest item that vLLM profiles."""


class EncoderSpec(NamedTuple):
    """A row. The rest is as in MultiModalEncoder.

    block: of which there are `depth`. others: further blocks, each with its number. stem: what stands around the
    blocks. projector: what follows. part: where the config keeps the encoder, the usual place if empty. present: False
    where this config has no such encoder. float32: whether the blocks are of that type, whatever the model's is.
    """

    sizes: Mapping[str, SizeEntry]
    limit: Limit
    stem: Steps = ()
    projector: Steps = ()
    block: Steps = (Block(),)
    others: tuple[tuple[Steps, Expression], ...] = ()
    modality: str = "image"
    sharded: bool = True
    masked: bool = False
    kept: Expression = 0
    levels: Expression = 0
    video: Callable[[EncoderScope], VideoProfile] | None = None
    part: str = ""
    present: SizeChoice = True
    float32: SizeChoice = False


def of_tokens(tokens: Expression) -> Limit:
    """An image in its own shape, of so many tokens."""
    return tokens, f"{tokens}*merge*merge", f"{tokens}*merge*merge*values"


def of_patches(patches: Expression) -> Limit:
    """An image in its own shape, of so many patches."""
    return f"{patches}/merge/merge", patches, f"{patches}*values"


def of_pixels(pixels: int) -> Limit:
    """An image in its own shape, of so many pixels."""
    return f"{pixels}/patch/patch/merge/merge", f"{pixels}/patch/patch", 3 * pixels


def of_crops(crops: Expression) -> Limit:
    """So many crops (tiles) of the encoder's own image size, the overview among them."""
    return f"{crops}*grid/merge/merge", f"{crops}*grid", f"{crops}*pixels"


def of_queries(tokens: Expression) -> Limit:
    """One image of the encoder's own size, condensed to a fixed number of tokens."""
    return tokens, "grid", "pixels"


def read_encoder(spec: EncoderSpec, source: EncoderSource) -> MultiModalEncoder | None:
    """The encoder that `spec` describes, with the sizes of this config; None if it has none."""
    scope = EncoderScope(source, spec.sizes, spec.part)
    if not scope.holds(spec.present):
        return None
    scope.read_all()
    blocks = ((spec.block, "depth"), *spec.others) if "depth" in spec.sizes else ()
    made = [(_layer(steps, scope), scope[count]) for steps, count in blocks]
    if scope.holds(spec.float32):
        made = [(_in_float32(layer), count) for layer, count in made]
    tokens, patches, pixels = spec.limit(scope) if callable(spec.limit) else (scope[size] for size in spec.limit)
    return MultiModalEncoder(
        spec.modality,
        (*made, (_layer((*spec.stem, *spec.projector), scope), 1)),
        scope["width"],
        tokens,
        patches,
        pixels,
        sharded=spec.sharded,
        masked=spec.masked,
        kept=scope[spec.kept],
        levels=scope[spec.levels],
        video=spec.video(scope) if spec.video else None,
    )


def _layer(steps: Steps, scope: EncoderScope) -> Layer:
    layer = scope.source.builder.single("vision_tower.")
    for step in steps:
        if scope.holds(step.when):
            step.add(layer, scope)
    return layer.layer()


def _in_float32(layer: Layer) -> Layer:
    return replace(
        layer,
        linears=tuple(replace(linear, float32=True) for linear in layer.linears),
        vectors=tuple(replace(vector, float32=True) for vector in layer.vectors),
    )
