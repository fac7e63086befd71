"""A causal language model of the transformers library, one step at a time.

`generate` computes a batch from its prompts to its end, so requests could neither join nor leave. Here each step does
what one of its steps does (transformers/generation/utils.py 5.23, `_sample`), with its own means: the inputs, the cache
and the processors of logits are those that the model makes for `generate`. Beam search is `generate` itself.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import Cache
from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.stopping_criteria import StoppingCriteria

from rayllm_ctl.serving.generation.choosing import Chooser, options
from rayllm_ctl.serving.generation.rows import BY_COLUMN, KNOWN, Rows, stack, stack_layers, trim
from rayllm_ctl.serving.generation.runner import DeviceLost, OutOfMemory
from rayllm_ctl.serving.generation.sequences import Generation


class TorchRunner:
    """A Runner.

    device: where tokens go in and logits come out.
    prefill_tokens: the most tokens, with padding, of prompts that are computed at once.
    end_tokens: end a sequence.
    """

    def __init__(self, model: Any, device: torch.device, prefill_tokens: int, end_tokens: Sequence[int]) -> None:
        self._model = model
        self._device = device
        self._prefill_tokens = prefill_tokens
        self._ends = frozenset(end_tokens)
        self._cached, _ = model._prepare_generation_config(None, use_cache=True)
        # A cache of fixed size cannot give up rows.
        self._cached.cache_implementation = None
        accepted = set(inspect.signature(model.forward).parameters)
        self._accepts_mask = "attention_mask" in accepted
        self._accepts_positions = "position_ids" in accepted
        # Models of the library are tested with padding on the left. Code of a repository that is told of no positions
        # may count them from the first column, padding included.
        self._pads = self._accepts_mask and (self._accepts_positions or not model.is_remote_code())

    def divide(self, generations: Sequence[Generation]) -> list[list[Generation]]:
        """Prompts of like length together; of equal length if the model knows no padding."""
        groups: list[list[Generation]] = []
        for generation in sorted(generations, key=lambda one: len(one.prompt)):
            length = len(generation.prompt)
            group = groups[-1] if groups else []
            fits = (len(group) + 1) * length <= self._prefill_tokens
            if group and fits and (self._pads or len(group[0].prompt) == length):
                group.append(generation)
            else:
                groups.append([generation])
        return groups

    def begin(self, generations: list[Generation]) -> tuple[Rows, list[int]]:
        """See Runner."""
        with _computing():
            width = max(len(generation.prompt) for generation in generations)
            prompts = [[0] * (width - len(one.prompt)) + list(one.prompt) for one in generations]
            masks = [[0] * (width - len(one.prompt)) + [1] * len(one.prompt) for one in generations]
            ids = torch.tensor(prompts, device=self._device)
            arguments = self._first_arguments(ids, torch.tensor(masks, device=self._device))
            choosers = [Chooser(self._model, generation, self._device) for generation in generations]
            rows = Rows(list(generations), choosers, ids, arguments)
            inputs = self._model.prepare_inputs_for_generation(ids, is_first_iteration=True, **arguments)
            return rows, self._advance(rows, self._model(**inputs, return_dict=True))

    def step(self, batch: Rows) -> list[int]:
        """See Runner."""
        with _computing():
            inputs = self._model.prepare_inputs_for_generation(batch.ids, next_sequence_length=1, **batch.arguments)
            return self._advance(batch, self._model(**inputs, return_dict=True))

    def keep(self, batch: Rows, places: list[int]) -> None:
        """See Runner."""
        if not isinstance(batch.cache, Cache) or not set(batch.arguments) <= KNOWN:
            return
        with _computing():
            chosen = torch.tensor(places, device=self._device)
            batch.ids = batch.ids[chosen]
            for name in BY_COLUMN:
                if name in batch.arguments:
                    rows = batch.arguments[name]
                    batch.arguments[name] = rows.index_select(rows.ndim - 2, chosen)
            batch.cache.reorder_cache(chosen)
            batch.generations = [batch.generations[place] for place in places]
            batch.choosers = [batch.choosers[place] for place in places]
            trim(batch)

    def can_join(self, first: Rows, second: Rows) -> bool:
        """See Runner."""
        return self._pads and first.joinable and second.joinable and set(first.arguments) == set(second.arguments)

    def join(self, first: Rows, second: Rows) -> None:
        """See Runner."""
        with _computing():
            width = max(first.ids.shape[1], second.ids.shape[1])
            left = [width - one.ids.shape[1] for one in (first, second)]
            first.ids = stack([first.ids, second.ids], left)
            for name in BY_COLUMN:
                if name in first.arguments:
                    first.arguments[name] = stack([first.arguments[name], second.arguments[name]], left)
            for one, other in zip(first.cache.layers, second.cache.layers, strict=True):
                # Layers that share the cache of another one have none.
                if one.is_initialized:
                    stack_layers(one, other)
            first.generations = [*first.generations, *second.generations]
            first.choosers = [*first.choosers, *second.choosers]

    def search(self, generation: Generation, between: Callable[[], None]) -> list[list[int]]:
        """See Runner."""
        decoding = generation.decoding
        with _computing():
            prompt = torch.tensor([generation.prompt], device=self._device)
            found = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=generation.max_tokens,
                num_beams=decoding.num_beams,
                num_return_sequences=len(generation.answers),
                length_penalty=decoding.length_penalty,
                stopping_criteria=[_Between(between)],
                **options(decoding),
            )
        return [self._until_end(row[prompt.shape[1] :].tolist()) for row in found]

    def recover(self) -> None:
        """See Runner."""
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _first_arguments(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
        arguments: dict[str, Any] = {"use_cache": True}
        if self._accepts_mask:
            arguments["attention_mask"] = mask
        if self._accepts_positions:
            arguments["position_ids"] = self._model._prepare_position_ids_for_generation(ids, arguments)
        if self._model._supports_logits_to_keep():
            arguments["logits_to_keep"] = 1
        self._model._prepare_cache_for_generation(self._cached, arguments, GenerationMode.GREEDY_SEARCH, *ids.shape)
        return arguments

    def _advance(self, batch: Rows, outputs: Any) -> list[int]:
        """Choose the next tokens."""
        batch.arguments = self._model._update_model_kwargs_for_generation(outputs, batch.arguments)
        logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=self._device)
        tokens = logits.argmax(dim=-1)
        for place, chooser in enumerate(batch.choosers):
            if not chooser.takes_the_best:
                tokens[place] = chooser.choose(batch.ids[place : place + 1], logits[place : place + 1])
        batch.ids = torch.cat([batch.ids, tokens[:, None]], dim=-1)
        chosen: list[int] = tokens.tolist()
        return chosen

    def _until_end(self, tokens: list[int]) -> list[int]:
        """Without the padding behind the token that ended a beam."""
        end = next((place for place, token in enumerate(tokens) if token in self._ends), len(tokens))
        return tokens[: end + 1]


class _Between(StoppingCriteria):  # type: ignore[misc]
    """Calls a function between two steps of `generate`; it stops nothing."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ARG002
        self._call()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


@contextmanager
def _computing() -> Iterator[None]:
    """Computes without gradients, and with errors of torch as those of a Runner."""
    try:
        with torch.no_grad():
            yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error
    except torch.AcceleratorError as error:
        raise DeviceLost(str(error)) from error
    except RuntimeError as error:
        # What torch says when the system has no memory for a tensor on the CPU (c10/core/impl/alloc_cpu.cpp 2.13).
        if "not enough memory" in str(error) or "can't allocate memory" in str(error):
            raise OutOfMemory(str(error)) from error
        raise
