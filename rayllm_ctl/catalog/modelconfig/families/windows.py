"""Which layers see all tokens and which a window or chunk of them."""

from __future__ import annotations

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
