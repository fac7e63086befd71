"""Which layers see all tokens and which a window or chunk of them; which are dense and which have experts."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_EXPERTS
from rayllm_ctl.catalog.modelconfig.fields import Fields

Window = tuple[int, int]
"""(sliding window, chunk); 0 means none."""

FULL: Window = (0, 0)

WINDOW = ("sliding_window", "sliding_window_size")


def layer_windows(
    fields: Fields, count: int, *, pattern: int = 0, uniform: bool = False, names: tuple[str, ...] = WINDOW
) -> list[Window]:
    """The window of each layer. `names`: of the field that says how large it is.

    A list of windows (`interleaved_sliding_window`) decides, then `layer_types`. Without them: every `pattern`-th layer
    is full and the others slide (Gemma, Cohere 2, EXAONE 4); or, `uniform`, all layers slide where the config has a
    sliding_window that it does not switch off (Mistral 0.1, Phi-3, StarCoder 2).
    """
    listed = fields.integers("interleaved_sliding_window", null=0)
    if listed:
        return [(listed[index % len(listed)], 0) for index in range(count)]
    window = fields.integer(*names, default=0, low=0)
    chunk = fields.integer("attention_chunk_size", default=0, low=0)
    kinds = fields.texts("layer_types", longest=4096)
    if kinds and not (uniform and not fields.flag("use_sliding_window", default=True)):
        windows = []
        for index in range(count):
            kind = kinds[index] if index < len(kinds) else kinds[-1]
            if "sliding" in kind:
                windows.append((window, 0))
            elif "chunk" in kind:
                windows.append((0, chunk))
            else:
                windows.append(FULL)
        return windows
    if not window or not fields.flag("use_sliding_window", default=True):
        return [FULL] * count
    period = (
        fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=pattern, low=0) if pattern else 0
    )
    if period:
        return [FULL if (index + 1) % period == 0 else (window, 0) for index in range(count)]
    if uniform:
        return [(window, 0)] * count
    return [FULL] * count


def sparse_step(fields: Fields, index: int) -> bool:
    """Qwen: dense where listed, or between sparse steps."""
    step = fields.integer("decoder_sparse_step", default=1, low=0)
    experts = fields.integer(*EXPERTS, default=0, low=0, high=MOST_EXPERTS)
    return index in fields.integers("mlp_only_layers") or not experts or not step or (index + 1) % step != 0


def first_dense(fields: Fields, index: int) -> bool:
    """DeepSeek's rule, also GLM's: the first layers are dense, later ones may alternate."""
    first = fields.integer("first_k_dense_replace", "num_dense_layers", default=0, low=0)
    frequency = fields.raw("moe_layer_freq")
    if isinstance(frequency, list):
        return not fields.integer_at(index, "moe_layer_freq", low=0)
    return index < first or index % fields.integer("moe_layer_freq", default=1) != 0


def listed_dense(fields: Fields, index: int) -> bool:
    """EXAONE MoE: a list of booleans; GLM and similar models: mlp_layer_types."""
    kinds = fields.raw("is_moe_layer")
    if isinstance(kinds, list) and kinds:
        return not kinds[min(index, len(kinds) - 1)]
    types = fields.texts("mlp_layer_types")
    if types:
        return types[min(index, len(types) - 1)] == "dense"
    return first_dense(fields, index)


def ernie_dense(fields: Fields, index: int) -> bool:
    first = fields.integer_at(0, "moe_layer_start_index", default=0, low=0)
    last = fields.integer_at(0, "moe_layer_end_index", default=MOST_EXPERTS, low=-1)
    step = fields.integer_at(0, "moe_layer_interval", default=1)
    return not (first <= index <= (last if last >= 0 else MOST_EXPERTS) and (index + 1) % step == 0)


def step_dense(fields: Fields, index: int) -> bool:
    """Step: "4,5,6": the layers with experts; absent: all but the first."""
    listed = fields.raw("moe_layers_enum")
    if isinstance(listed, str):
        return str(index) not in [part.strip() for part in listed[:8192].split(",")]
    if isinstance(listed, list):
        return index not in fields.integers("moe_layers_enum")
    return index < 1


def listed_kinds(fields: Fields, count: int, *names: str) -> list[str]:
    """The kind of each layer as the config lists it, its last one for those beyond the list; empty without a list."""
    kinds = fields.texts(*(names or ("layer_types",)))
    return [kinds[min(index, len(kinds) - 1)] for index in range(count)] if kinds else []
