"""How the next token of a sequence is chosen, with the processors of logits that `generate` would use."""

from __future__ import annotations

from typing import Any, Final

import torch

from rayllm_ctl.serving.generation.parameters import Decoding
from rayllm_ctl.serving.generation.sequences import Generation

_SEEDS: Final = 2**63


def options(decoding: Decoding) -> dict[str, Any]:
    """Arguments of `generate`. What is left out is the model's own default.

    `generate` takes 50 for a top_k that nobody set; here, as in vLLM, that is all tokens.
    """
    given: dict[str, Any] = {
        "do_sample": decoding.kind == "sampling",
        "repetition_penalty": decoding.repetition_penalty,
        "min_new_tokens": decoding.min_tokens or None,
    }
    if decoding.kind == "sampling":
        given |= {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
    return {name: value for name, value in given.items() if value is not None}


class Chooser:
    """Of one sequence. With a seed its choices depend on nothing but that and the logits."""

    def __init__(self, model: Any, generation: Generation, device: torch.device) -> None:
        given = options(generation.decoding)
        if generation.decoding.kind == "sampling" and model.generation_config.top_k is None:
            given.setdefault("top_k", 0)
        config, _ = model._prepare_generation_config(None, **given)
        model._prepare_special_tokens(config, True, device=device)
        self._length = len(generation.prompt)
        self._processors = model._get_logits_processor(
            config, input_ids_seq_length=self._length, device=device, model_kwargs={}
        )
        self._samples = config.do_sample
        self.takes_the_best = not self._samples and not self._processors
        """Whether nothing but the highest logit counts."""
        self._random = torch.Generator(device)
        if generation.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(generation.seed % _SEEDS)

    def choose(self, ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """The next token; `ids` and `logits` have one row, `ids` maybe with padding on the left."""
        scores = self._processors(ids[:, -self._length :], logits)
        self._length += 1
        if self._samples:
            return torch.multinomial(scores.softmax(dim=-1), 1, generator=self._random)[0, 0]
        return scores.argmax(dim=-1)[0]
