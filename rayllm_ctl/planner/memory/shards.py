"""What one rank holds: tensors of a layer after tensor parallelism and quantization, layers of a pipeline stage."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import Experts, Layer, Linear, ModelFacts, MultiModalEncoder, Scheme, Vector

_VOCAB_PADDING = 64
"""vLLM pads vocabularies to a multiple of this before splitting them (layers/vocab_parallel_embedding.py)."""

_MXFP4_GROUP = 32
_SHARED_EXPERT = "shared_expert"

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


@dataclass(frozen=True)
class Padding:
    """How a kernel lays out mxfp4 experts: multiples that it rounds sizes up to, in elements.

    intermediate, hidden: of the experts themselves. value_inputs, value_outputs, scale_inputs, scale_outputs: of the
    packed values and of the scales after they are rearranged. first_scales: the scales as loaded stay beside them.
    bias_bytes: of an element of the biases (0: the model's).
    """

    intermediate: int = 1
    hidden: int = 1
    value_inputs: int = 1
    value_outputs: int = 1
    scale_inputs: int = 1
    scale_outputs: int = 1
    first_scales: bool = False
    bias_bytes: int = 0


@dataclass(frozen=True)
class ShardSettings:
    """How a model is cut and stored: TP ranks, bytes per element, a scheme that vLLM applies while loading, whether
    experts are spread over the ranks whole (expert parallelism), and whether each rank holds the encoders whole.

    data: ranks of data parallelism. Experts are divided over all data x tensor ranks, with expert parallelism or
    without (fused_moe/config.py FusedMoEParallelConfig, 0.29), everything else over the TP ranks alone. redundant:
    experts that are loaded a second time.
    """

    tensor: int = 1
    dtype_bytes: int = 2
    online: Scheme | None = None
    expert_parallel: bool = False
    mxfp4: Padding = Padding()
    whole_encoders: bool = False
    data: int = 1
    redundant: int = 0

    @property
    def expert_ranks(self) -> int:
        return self.data * self.tensor

    def tensor_of(self, linear: Linear) -> int:
        """The ranks that divide a linear layer. Shared experts are whole on each one where its tokens are a part of the
        sequence (config/parallel.py use_sequence_parallel_moe: TP and data parallelism with expert parallelism). A few
        classes divide them nevertheless: of GLM-4.5-Air, 1.4 % of the weights too many are planned at DP 2 x TP 2."""
        whole = self.expert_parallel and self.data > 1 and _SHARED_EXPERT in linear.name
        return 1 if whole else self.tensor

    def scheme_of(self, linear: Linear) -> Scheme | None:
        """How a linear layer is stored: as in the checkpoint, or as vLLM quantizes it while loading."""
        if linear.scheme is not None or not linear.quantizable or self.online is None or self.online.experts_only:
            return linear.scheme
        return self.online


def ceil_to(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def vocab_rows(vocab: int, tensor: int) -> int:
    """Rows of the embedding or the output head on one rank."""
    return -(-ceil_to(vocab, _VOCAB_PADDING) // tensor)


def linear_tensors(linear: Linear, shape: ShardSettings) -> Iterator[int]:
    """Bytes of each tensor of a linear layer on one rank."""
    inputs, outputs = linear_size(linear, shape.tensor_of(linear))
    element = 4 if linear.float32 else shape.dtype_bytes
    scheme = shape.scheme_of(linear)
    if scheme is None:
        yield inputs * outputs * element
    else:
        yield from scheme_tensors(scheme, inputs, outputs, len(linear.parts))
    if linear.bias:
        yield outputs * element


def linear_size(linear: Linear, tensor: int) -> tuple[int, int]:
    """(inputs, outputs) of a linear layer on one rank."""
    outputs, inputs = linear.outputs, linear.inputs
    if linear.split == "column":
        outputs = sum(part.per_rank(tensor) for part in linear.parts)
    elif linear.split == "row":
        units = linear.input_units or inputs
        inputs = max(1, -(-units // tensor)) * (inputs // units)
    return inputs, outputs


def scheme_tensors(scheme: Scheme, inputs: int, outputs: int, shards: int = 1) -> Iterator[int]:
    """Bytes of the weight and of what its quantization stores beside it."""
    yield -(-inputs * outputs * scheme.bits // 8)
    if scheme.block is not None:
        rows, columns = scheme.block
        yield -(-outputs // rows) * -(-inputs // columns) * scheme.scale_bytes
    elif scheme.group < 0:
        yield scheme.scale_bytes * shards
    elif scheme.group == 0:
        yield outputs * scheme.scale_bytes
    else:
        groups = max(1, -(-inputs // scheme.group))
        yield outputs * groups * scheme.scale_bytes
        if scheme.zero_points:
            yield -(-outputs * groups * scheme.bits // 8)
    if scheme.activation_order:
        yield inputs * 4
        yield inputs * 4
    if scheme.input_scale:
        yield 4 * shards
    if scheme.global_scale:
        yield 4 * shards


def expert_tensors(experts: Experts, shape: ShardSettings) -> Iterator[int]:
    """Bytes of the fused expert tensors on one rank: w13, w2, their scales and biases."""
    count, width, hidden = experts.count, experts.intermediate, experts.hidden
    if shape.expert_parallel:
        count = -(-(count + shape.redundant) // shape.expert_ranks)
    else:
        width = -(-width // shape.expert_ranks)
    scheme = experts.scheme or (shape.online if experts.quantizable else None)
    mxfp4 = is_mxfp4(scheme)
    padding = shape.mxfp4
    if mxfp4:
        width, hidden = ceil_to(width, padding.intermediate), ceil_to(hidden, padding.hidden)
    inward = width * (2 if experts.gated else 1)
    for inputs, outputs in ((hidden, inward), (width, hidden)):
        if scheme is None:
            yield count * inputs * outputs * shape.dtype_bytes
        elif mxfp4:
            yield from (count * size for size in mxfp4_tensors(inputs, outputs, padding))
        else:
            for size in scheme_tensors(scheme, inputs, outputs, 2):
                yield count * size
        if experts.bias:
            yield count * outputs * ((mxfp4 and padding.bias_bytes) or shape.dtype_bytes)


def is_mxfp4(scheme: Scheme | None) -> bool:
    """Whether weights are 4-bit floats with a scale for every 32 of them."""
    return scheme is not None and scheme.floating and scheme.bits == 4 and scheme.group == _MXFP4_GROUP


def mxfp4_tensors(inputs: int, outputs: int, padding: Padding) -> Iterator[int]:
    """Bytes of one expert's packed values and of its scales as the kernel keeps them."""
    yield ceil_to(outputs, padding.value_outputs) * ceil_to(inputs, padding.value_inputs) // 2
    if padding.first_scales:
        yield outputs * (inputs // _MXFP4_GROUP)
    yield ceil_to(outputs, padding.scale_outputs) * (ceil_to(inputs, padding.scale_inputs) // _MXFP4_GROUP)


def vector_bytes(vector: Vector, shape: ShardSettings) -> int:
    size = vector.size
    if vector.units:
        size = max(1, -(-vector.units // shape.tensor)) * (vector.size // vector.units)
    return size * (4 if vector.float32 else shape.dtype_bytes)


def layer_tensors(layer: Layer, shape: ShardSettings) -> Iterator[int]:
    """Bytes of every tensor of a layer on one rank, in the order vLLM makes them."""
    for linear in layer.linears:
        yield from linear_tensors(linear, shape)
    for experts in layer.experts:
        yield from expert_tensors(experts, shape)
    for vector in layer.vectors:
        yield vector_bytes(vector, shape)


def tower_tensors(encoder: MultiModalEncoder, shape: ShardSettings) -> Iterator[int]:
    """Bytes of every tensor of an encoder on one rank."""
    divided = encoder.sharded and not shape.whole_encoders
    cut = shape if divided else ShardSettings(1, shape.dtype_bytes, shape.online)
    for layer, count in encoder.blocks:
        sizes = tuple(layer_tensors(layer, cut))
        for _ in range(count):
            yield from sizes


@dataclass(frozen=True)
class Stage:
    """The layers of one pipeline rank; `first` holds the embedding and the encoders, `last` the output head."""

    layers: tuple[Layer, ...]
    first: bool
    last: bool

    @property
    def key(self) -> tuple[object, ...]:
        """Tells stages of the same facts apart without comparing their layers."""
        return self.first, self.last, *map(id, self.layers)


def stages(facts: ModelFacts, pipeline: int) -> tuple[Stage, ...]:
    """Layers per pipeline rank as vLLM cuts them: what is left over goes to the stages before the last one."""
    count = facts.layer_count
    share, rest = divmod(count, pipeline)
    sizes = [share] * pipeline
    for index in range(2, rest + 2):
        sizes[-index % pipeline] += 1
    found, start = [], 0
    for index, size in enumerate(sizes):
        found.append(Stage(facts.layers[start : start + size], index == 0, index == pipeline - 1))
        start += size
    return tuple(found)


def stage_tensors(facts: ModelFacts, stage: Stage, shape: ShardSettings, *, encoders: bool = True) -> Iterator[int]:
    """Bytes of every tensor of one pipeline stage on one tensor-parallel rank."""
    rows = vocab_rows(facts.vocab_size, shape.tensor)
    if stage.first and encoders:
        for encoder in facts.encoders:
            yield from tower_tensors(encoder, shape)
    if stage.first or (stage.last and facts.tied_embeddings):
        table = facts.vocab_size if facts.whole_embedding else rows
        yield table * facts.hidden_size * shape.dtype_bytes
    for layer in facts.shared:
        yield from layer_tensors(layer, shape)
    known: dict[int, tuple[int, ...]] = {}
    for layer in stage.layers:
        sizes = known.get(id(layer))
        if sizes is None:
            sizes = known[id(layer)] = tuple(layer_tensors(layer, shape))
        yield from sizes
    if stage.last:
        for layer in facts.extra:
            yield from layer_tensors(layer, shape)
        if not facts.tied_embeddings:
            yield from head_tensors(facts, shape)
        if facts.head_bias:
            yield rows * shape.dtype_bytes


def whole_weights(facts: ModelFacts, dtype: str | None) -> int:
    """Bytes of all tensors of a model as one rank would hold them."""
    (stage,) = stages(facts, 1)
    return sum(stage_tensors(facts, stage, ShardSettings(1, DTYPE_BYTES.get(dtype or "", 2))))


def head_tensors(facts: ModelFacts, shape: ShardSettings) -> Iterator[int]:
    """Bytes of the output head on one rank, of its own or the embedding's."""
    rows = vocab_rows(facts.vocab_size, shape.tensor)
    if facts.head_scheme is None:
        yield rows * facts.hidden_size * (4 if facts.head_float32 else shape.dtype_bytes)
    else:
        yield from scheme_tensors(facts.head_scheme, facts.hidden_size, rows)
