"""Two applications for a Serve configuration: a translator, and a summarizer that hands its summary to one.

The model of the test image answers in sentences that mean nothing; what counts is that Transformers runs it.
"""

from __future__ import annotations

import os
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = os.environ.get("TEXT_MODEL", "/models/tiny")


class Writer:
    """A causal language model that continues a text."""

    def __init__(self) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(MODEL)
        self._model = AutoModelForCausalLM.from_pretrained(MODEL)

    def write(self, text: str, tokens: int) -> str:
        inputs = self._tokenizer(text, return_tensors="pt")
        output = self._model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        return str(self._tokenizer.decode(output[0], skip_special_tokens=True))


@serve.deployment
class Translator:
    """`user_config` names the language."""

    def __init__(self) -> None:
        self._writer = Writer()
        self._language = "english"

    def reconfigure(self, config: dict[str, Any]) -> None:
        self._language = config["language"]

    def translate(self, text: str) -> dict[str, str]:
        return {"language": self._language, "text": self._writer.write(text, 8)}

    async def __call__(self, request: Request) -> dict[str, str]:
        return self.translate(await request.json())


@serve.deployment
class Summarizer:
    """Summarizes, then asks the translator."""

    def __init__(self, translator: DeploymentHandle, tokens: int) -> None:
        self._writer = Writer()
        self._translator = translator
        self._tokens = tokens

    async def __call__(self, request: Request) -> dict[str, str]:
        summary = self._writer.write(await request.json(), self._tokens)
        translated: dict[str, str] = await self._translator.translate.remote(summary)
        return {"summary": summary, **translated}


translator = Translator.bind()


def summarizer(args: dict[str, Any]) -> serve.Application:
    """An application builder: `args` are those of the file."""
    return Summarizer.bind(Translator.bind(), int(args["tokens"]))
