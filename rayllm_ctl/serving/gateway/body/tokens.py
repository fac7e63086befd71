"""Counts the tokens of prompts with the model's own tokenizer and chat template, long ones beside the event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from rayllm_ctl.serving.gateway.body.endpoints import Endpoint
from rayllm_ctl.serving.gateway.body.messages import for_template, texts
from rayllm_ctl.serving.gateway.body.prompts import sequences
from rayllm_ctl.serving.gateway.errors import Rejected, invalid
from rayllm_ctl.serving.gateway.steps import Rejection

_RETRY = 30.0
"""Seconds after which a tokenizer that could not be loaded is tried again."""

_SHORT = 1024
"""Bytes of a body up to which its tokens are counted on the event loop: in a millisecond at most, and with less CPU
than another thread takes."""

_log = logging.getLogger("rayllm.gateway")


class Tokenizer(Protocol):
    """What is used of a tokenizer of the transformers library."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        """The prompt of a chat, as text."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The token ids of a text."""


def load(name: str) -> Tokenizer:
    """The tokenizer of a directory or a repository of the hub. Importing transformers takes seconds."""
    from transformers import AutoTokenizer

    tokenizer: Tokenizer = AutoTokenizer.from_pretrained(name)
    return tokenizer


class Counter:
    """Counts tokens for one model. Its methods may run in several threads at once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The Rust tokenizer may be used by several threads as long as none changes its settings, which the wrapper of
        # transformers does. Slow tokenizers, written in Python, have no such part.
        self._fast = getattr(tokenizer, "backend_tokenizer", None)
        if self._fast is not None:
            self._fast.no_truncation()
            self._fast.no_padding()
        self._reserved = set(inspect.signature(tokenizer.apply_chat_template).parameters)

    @property
    def fast(self) -> bool:
        """Whether the tokenizer is written in Rust."""
        return self._fast is not None

    def text(self, text: str, special: bool) -> int:
        """Tokens of a text, with the special tokens around it if `special`."""
        if self._fast is not None:
            # Without the places of the tokens in the text, which take as long again.
            return len(self._fast.encode_batch_fast([text], add_special_tokens=special)[0])
        return len(self._tokenizer.encode(text, add_special_tokens=special))

    def chat(self, body: dict[str, Any]) -> int:
        """Tokens of the messages of a chat. Raises Rejected if the model's chat template rejects them."""
        from jinja2 import TemplateError

        continued = bool(body.get("continue_final_message"))
        given = body.get("chat_template_kwargs") or {}
        options = {name: value for name, value in given.items() if name not in self._reserved}
        try:
            prompt = self._tokenizer.apply_chat_template(
                for_template(body["messages"]),
                tools=body.get("tools"),
                tokenize=False,
                add_generation_prompt=not continued and body.get("add_generation_prompt") is not False,
                continue_final_message=continued,
                **options,
            )
        except TemplateError as error:
            reason = str(error)
            shown = f": {reason}" if reason.isprintable() and "/" not in reason and len(reason) <= 200 else ""
            raise invalid(f"messages: rejected by the chat template of the model{shown}", "messages") from None
        except Exception:
            # The engine may give the template something else than is known here, so it has the last word.
            _log.debug("chat template failed", exc_info=True)
            prompt = "\n".join(texts(body["messages"]))
        return self.text(prompt, bool(body.get("add_special_tokens")))

    def body(self, endpoint: Endpoint, body: dict[str, Any]) -> list[int]:
        """Tokens of each sequence of a body."""
        if "messages" in endpoint.prompts and body.get("messages") is not None:
            return [self.chat(body)]
        special = body.get("add_special_tokens") is not False
        counts = [self.text("".join(parts), special) for parts in sequences(endpoint, body)]
        return counts + _given_ids(endpoint, body)


def _given_ids(endpoint: Endpoint, body: dict[str, Any]) -> list[int]:
    counts: list[int] = []
    for name in endpoint.prompts:
        value = body.get(name)
        if isinstance(value, list) and isinstance(value[0], int):
            counts.append(len(value))
        elif isinstance(value, list) and isinstance(value[0], list):
            counts += map(len, value)
    return counts


class Tokenizers:
    """The tokenizers of all models, loaded on first use and kept."""

    def __init__(self, loader: Callable[[str], Tokenizer] = load, threads: int = 2) -> None:
        self._load = loader
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tokenizer")
        self._counters: dict[str, Counter] = {}
        self._loading: dict[str, asyncio.Future[Counter]] = {}
        self._failed: dict[str, float] = {}
        self._used: set[tuple[str, str]] = set()
        """Tokenizers and paths: the first use of a chat template compiles it, which takes long."""

    async def count(self, name: str, endpoint: Endpoint, body: dict[str, Any], size: int) -> list[int]:
        """Tokens of each sequence of a body of `size` bytes. Raises Rejected."""
        counter = self._counters.get(name) or await self.prepare(name)
        use = name, endpoint.path
        if size <= _SHORT and counter.fast and use in self._used:
            return counter.body(endpoint, body)
        counts = await asyncio.get_running_loop().run_in_executor(self._threads, counter.body, endpoint, body)
        self._used.add(use)
        return counts

    async def prepare(self, name: str) -> Counter:
        """Load a tokenizer, once for all requests that wait for it. Raises Rejected (503) if that fails."""
        if time.monotonic() < self._failed.get(name, 0):
            raise _unavailable()
        future = self._loading.get(name)
        if future is None:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, lambda: Counter(self._load(name)))
            self._loading[name] = future
        try:
            counter = await asyncio.shield(future)
        except Exception:
            if self._loading.pop(name, None) is not None:
                self._failed[name] = time.monotonic() + _RETRY
                _log.exception("tokenizer %s cannot be loaded", name)
            raise _unavailable() from None
        self._loading.pop(name, None)
        self._counters[name] = counter
        return counter


def _unavailable() -> Rejected:
    headers = ((b"retry-after", str(int(_RETRY)).encode()),)
    message = "The tokens of the prompt cannot be counted now"
    return Rejected(Rejection(503, message, "tokenizer_unavailable", headers=headers))
