"""The tokens of prompts, and the text of tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rayllm_ctl.serving.gateway.body.messages import for_template
from rayllm_ctl.serving.gateway.errors import invalid
from rayllm_ctl.serving.generation.parameters import Parameters

T = TypeVar("T")


class Prompts:
    """Reads the prompts of requests with the tokenizer of the model. Its methods raise Rejected.

    vocabulary: ids of tokens are below this number.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, max_model_len: int) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._context = max_model_len
        # Long prompts take long, and two threads must not encode at once.
        if (fast := getattr(tokenizer, "backend_tokenizer", None)) is not None:
            # Then nothing changes it any more, and the generating thread may decode meanwhile.
            fast.no_truncation()
            fast.no_padding()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    async def chat(self, body: dict[str, Any]) -> list[int]:
        """Of a body with `messages`."""
        return await self._apart(lambda: self._chat(body))

    async def texts(self, body: dict[str, Any]) -> list[list[int]]:
        """Of a body with a `prompt`: a string, token ids, or several of either."""
        prompt = body["prompt"]
        several = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
        special = body.get("add_special_tokens") is not False
        return [await self._apart(lambda given=given: self._ids(given, special)) for given in several]  # type: ignore[misc]

    def room(self, prompt: Sequence[int], parameters: Parameters, field: str) -> int:
        """The most tokens that the answer to a prompt may have."""
        if len(prompt) >= self._context:
            raise invalid(
                f"{field}: has {len(prompt)} tokens, and prompt and answer may have at most {self._context} together",
                field,
                "prompt_too_long",
            )
        left = self._context - len(prompt)
        if parameters.max_tokens is None:
            return left
        name = parameters.max_tokens_field
        if parameters.max_tokens > left and name is not None:
            raise invalid(
                f"{name}: {parameters.max_tokens} and the {len(prompt)} tokens of the prompt are more than "
                f"{self._context}, the tokens that prompt and answer may have together",
                name,
                "context_length_exceeded",
            )
        return min(parameters.max_tokens, left)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    async def detokenized(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included."""
        self._check(tokens, "tokens")
        return await self._apart(lambda: str(self._tokenizer.decode(tokens, clean_up_tokenization_spaces=False)))

    def names(self, tokens: Sequence[int]) -> list[str]:
        """How the tokenizer writes each token."""
        names: list[str] = self._tokenizer.convert_ids_to_tokens(list(tokens))
        return names

    async def _apart(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, read)

    def _chat(self, body: dict[str, Any]) -> list[int]:
        from jinja2 import TemplateError

        messages = body["messages"]
        _check_media(messages)
        if not self._tokenizer.chat_template:
            raise invalid("messages: the model has no chat template; use /v1/completions", "messages")
        continued = bool(body.get("continue_final_message"))
        if continued and body.get("add_generation_prompt"):
            name = "continue_final_message"
            raise invalid(f"{name}: excludes add_generation_prompt", name)
        try:
            text = self._tokenizer.apply_chat_template(
                for_template(messages),
                tokenize=False,
                add_generation_prompt=not continued and body.get("add_generation_prompt") is not False,
                continue_final_message=continued,
                **self._template_options(body),
            )
        except (TemplateError, ValueError, TypeError) as error:
            raise invalid(f"messages: rejected by the chat template of the model: {error}", "messages") from None
        return self._encode(text, body.get("add_special_tokens") is True, "messages")

    def _template_options(self, body: dict[str, Any]) -> dict[str, Any]:
        """Variables of the template; none may take the place of an argument of `apply_chat_template`."""
        given: dict[str, Any] = body.get("chat_template_kwargs") or {}
        reserved = {
            "conversation", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message",
            "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict", "tokenizer_kwargs",
            "return_assistant_tokens_mask", "processor_kwargs",
        }  # fmt: skip
        for name in given:
            if name in reserved:
                path = f"chat_template_kwargs.{name}"
                raise invalid(f"{path}: is not a variable of the template", path)
        return given

    def _ids(self, prompt: str | list[int], special: bool) -> list[int]:
        if isinstance(prompt, str):
            return self._encode(prompt, special, "prompt")
        self._check(prompt, "prompt")
        return prompt

    def _encode(self, text: str, special: bool, field: str) -> list[int]:
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=special)
        if not tokens:
            raise invalid(f"{field}: must not be empty", field)
        return tokens

    def _check(self, tokens: Sequence[int], field: str) -> None:
        if not tokens:
            raise invalid(f"{field}: must not be empty", field)
        if max(tokens) >= self._vocabulary:
            raise invalid(f"{field}: token ids must be less than {self._vocabulary}", field)


def _check_media(messages: list[dict[str, Any]]) -> None:
    """Only text can be read. `for_template` would leave out all else."""
    for place, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if part["type"] not in ("text", "input_text", "output_text", "refusal", "thinking"):
                path = f"messages[{place}].content[{number}].type"
                raise invalid(f"{path}: models of the Transformers engine read text only", path)
