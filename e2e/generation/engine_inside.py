"""The part of test_transformers_engine that runs in the serving image: an engine for each model, and what it answers.

Prints a line of JSON for each check: its name, and what the test asserts on.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import torch
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    ErrorResponse,
)
from ray.serve.llm import LLMConfig
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from rayllm_ctl.serving.generation.loading import LoadError
from rayllm_ctl.serving.transformers_engine import TransformersEngine, TransformersServer

TINY = Path("/mnt/tiny")
CONTEXT = 256
SETTINGS = {"dtype": "float32", "max_model_len": CONTEXT, "max_batch_size": 8, "gpus": 0, "cpus": 1}
TOKENS = 40
QUESTIONS = [
    "What is Ray?", "Hello", "What is tensor parallelism?", "Tell me a joke", "Who are you?", "Thank you",
    "What is the KV cache, and why does a long context need so much memory? Please tell me all of it.", "Goodbye",
]  # fmt: skip


def say(check: str, **found: Any) -> None:
    sys.stdout.write(f"check: {json.dumps({'check': check, **found})}\n")
    sys.stdout.flush()


def made(kind: str, tokenizer: Any) -> Path:
    """A model of another architecture, with random weights."""
    torch.manual_seed(3)
    size = {
        "vocab_size": len(tokenizer), "hidden_size": 64, "num_hidden_layers": 2, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0,
    }  # fmt: skip
    attention = {**size, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 512}
    match kind:
        case "neox":
            model: Any = GPTNeoXForCausalLM(GPTNeoXConfig(**attention))
        case "window":
            model = MistralForCausalLM(MistralConfig(**attention, num_key_value_heads=2, sliding_window=16))
        case _:
            model = MambaForCausalLM(MambaConfig(**size))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            # Larger than usual, or the next token hardly depends on those before.
            torch.nn.init.normal_(parameter, std=0.25)
    folder = Path("/tmp") / kind
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Served:
    """An engine as its replica has it, and the same model for `generate`."""

    def __init__(self, source: Path) -> None:
        self.engine = self.engine_of(source)
        self.model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(source)
        self.steps = self.computed = 0
        """Steps of the model, and the tokens that they gave."""

    @staticmethod
    def engine_of(source: Path | str, **changes: Any) -> TransformersEngine:
        return TransformersEngine(
            LLMConfig(
                model_loading_config={"model_id": "m", "model_source": str(source)},
                accelerator_config={"kind": "cpu"},
                experimental_configs={"transformers": {**SETTINGS, **changes}},
            )
        )

    async def start(self) -> None:
        await self.engine.start()
        runner: Any = self.engine._batcher._runner
        step = runner.step

        def counted(batch: Any) -> Any:
            tokens = step(batch)
            self.steps += 1
            self.computed += len(tokens)
            return tokens

        runner.step = counted

    def ids(self, question: str) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
        )
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def generated(self, ids: list[int], **options: Any) -> list[str]:
        with torch.no_grad():
            found = self.model.generate(torch.tensor([ids]), do_sample=False, **options)
        return [self.tokenizer.decode(row[len(ids) :], skip_special_tokens=True) for row in found]

    async def chat(self, question: str, **fields: Any) -> Any:
        """The response, or the text of a stream's events."""
        body = {"model": "m", "messages": [{"role": "user", "content": question}], **fields}
        return await answer(self.engine.chat(ChatCompletionRequest(**body)))

    async def complete(self, prompt: Any, **fields: Any) -> Any:
        return await answer(self.engine.completions(CompletionRequest(model="m", prompt=prompt, **fields)))

    async def texts(self, prompt: Any, **fields: Any) -> list[str]:
        return [choice["text"] for choice in (await self.complete(prompt, **fields))["choices"]]


async def answer(parts: Any) -> Any:
    found = [part async for part in parts]
    if isinstance(found[0], str):
        return "".join(found)
    (one,) = found
    return one.error.model_dump() if isinstance(one, ErrorResponse) else one.model_dump()


async def greedy(name: str, served: Served) -> None:
    """All at once, a little apart, so that some join others that are computed."""
    prompts = [served.ids(question) for question in QUESTIONS * 2]

    async def later(place: int) -> str:
        await asyncio.sleep(0.005 * place)
        return (await served.texts(prompts[place], temperature=0, max_tokens=TOKENS))[0]

    wanted = [served.generated(ids, max_new_tokens=TOKENS)[0] for ids in prompts]
    before = served.steps
    found = await asyncio.gather(*(later(place) for place in range(len(prompts))))
    say(f"greedy {name}", equal=found == wanted, different=len(set(found)), steps=served.steps - before)


async def beams(name: str, served: Served) -> None:
    ids = served.ids(QUESTIONS[0])
    wanted = served.generated(ids, max_new_tokens=TOKENS, num_beams=4, num_return_sequences=2, length_penalty=0.5)
    fields = {"decoding": "beam_search", "num_beams": 4, "length_penalty": 0.5, "max_tokens": TOKENS}
    searching = served.texts(ids, **fields, n=2)
    beside = served.texts(ids, temperature=0, max_tokens=TOKENS)
    found, (best,) = await asyncio.gather(searching, beside)
    (sampled,) = await served.texts(ids, temperature=1.5, seed=1, max_tokens=TOKENS)
    say(
        f"beams {name}",
        equal=found == wanted,
        beside=best == served.generated(ids, max_new_tokens=TOKENS)[0],
        sampled_differs=sampled not in found,
    )


async def seeds(name: str, served: Served) -> None:
    """The same seed alone and among others."""
    ids = served.ids(QUESTIONS[1])
    fields: dict[str, Any] = {"temperature": 1.5, "top_p": 0.95, "max_tokens": TOKENS}
    alone = await served.texts(ids, **fields, seed=7)
    others = [served.texts(served.ids(question), **fields) for question in QUESTIONS[2:]]
    again, other, *_ = await asyncio.gather(
        served.texts(ids, **fields, seed=7), served.texts(ids, **fields, seed=8), *others
    )
    several = await served.texts(ids, **fields, seed=7, n=3)
    say(
        f"seeds {name}",
        same=alone == again,
        other=other != alone,
        several=len(set(several)),
        first=several[:1] == alone,
    )


async def processed(name: str, served: Served) -> None:
    """Options that depend on the tokens so far, next to rows without any."""
    ids = served.ids(QUESTIONS[0])
    options = {"repetition_penalty": 1.3, "min_new_tokens": TOKENS, "max_new_tokens": TOKENS}
    fields = {"temperature": 0, "repetition_penalty": 1.3, "min_tokens": TOKENS, "max_tokens": TOKENS}
    others = (served.texts(served.ids(question), temperature=1.2, top_k=5) for question in QUESTIONS[5:])
    found, *_ = await asyncio.gather(served.texts(ids, **fields), *others)
    say(f"processed {name}", equal=found == served.generated(ids, **options))


async def speed(served: Served) -> None:
    """Tokens per second of one client, and of eight that ask at the same time; of equal work, in turns."""
    length = 120
    rates: dict[int, list[float]] = {1: [], 8: []}
    steps: dict[int, int] = {}
    for _ in range(3):
        for clients, measured in rates.items():
            before, begin = served.steps, time.perf_counter()
            asking = (
                served.complete(QUESTIONS[0], temperature=0, max_tokens=length, ignore_eos=True) for _ in range(clients)
            )
            answers = await asyncio.gather(*asking)
            made = sum(one["usage"]["completion_tokens"] for one in answers)
            measured.append(made / (time.perf_counter() - begin))
            steps[clients] = served.steps - before
    one, eight = (sorted(measured)[1] for measured in rates.values())
    say("speed", one=round(one), eight=round(eight), ratio=round(eight / one, 2), steps=[steps[1], steps[8]])


async def cancelled(served: Served) -> None:
    """What is computed while one request is answered, after a stream was closed and a task cancelled that asked for
    many more tokens."""
    fields: dict[str, Any] = {"max_tokens": 200, "ignore_eos": True, "temperature": 0}
    request = CompletionRequest(model="m", prompt="Hello", stream=True, **fields)
    async with aclosing(served.engine.completions(request)) as events:
        await anext(events)
        running = served.engine._batcher.figures().running
    whole = asyncio.create_task(served.complete("Hello", **fields))
    while not served.engine._batcher.figures().running:
        await asyncio.sleep(0.001)
    whole.cancel()
    await asyncio.wait([whole])
    before = served.computed
    await served.complete("Hello", **{**fields, "max_tokens": TOKENS})
    say("cancelled", running=running, computed=served.computed - before)


async def failures(served: Served) -> None:
    """A step without memory fails its requests alone; a device that is lost ends the engine."""
    runner: Any = served.engine._batcher._runner
    model = runner._model

    def failing(error: Exception) -> Any:
        def forward(*_: Any, **__: Any) -> Any:
            runner._model.forward = forward_before
            raise error

        forward_before, runner._model.forward = model.forward, forward
        return forward

    failing(torch.OutOfMemoryError("CUDA out of memory"))
    full = await served.complete("Hello", max_tokens=3)
    after = await served.texts("Hello", temperature=0, max_tokens=3)
    await served.engine.check_health()
    failing(torch.AcceleratorError("CUDA error: unspecified launch failure"))
    lost = await served.complete("Hello", max_tokens=3)
    await asyncio.sleep(0.1)
    try:
        await served.engine.check_health()
        health = "healthy"
    except RuntimeError as error:
        health = str(error)
    say("failures", full=full, after=after, lost=lost, health=health)


async def unloadable(source: Path) -> None:
    """What the start of an engine says that cannot load its model."""
    said = []
    for name, changes in ((source, {"gpus": 1}), (source, {"max_model_len": 10**6}), ("/mnt/nothing", {})):
        try:
            await Served.engine_of(name, **changes).start()
        except LoadError as error:
            said.append(str(error))
    say("unloadable", said=said)


def deployed() -> None:
    """What the deployment of a model on two GPUs asks Ray for."""
    config = LLMConfig(
        model_loading_config={"model_id": "m"},
        accelerator_type="H100",
        deployment_config={"num_replicas": 1, "ray_actor_options": {"memory": 7}},
        experimental_configs={"transformers": {**SETTINGS, "gpus": 2, "cpus": 3}},
    )
    options = TransformersServer.get_deployment_options(config)
    actor = {name: value for name, value in options.pop("ray_actor_options").items() if name != "runtime_env"}
    say("deployed", actor=actor, options=options)


async def api(served: Served) -> None:
    """Streams, stop sequences, several prompts, and errors, with the models of requests that Ray has."""
    stream = await served.chat("Hello", temperature=0, stream=True, stream_options={"include_usage": True})
    whole = await served.chat("Hello", temperature=0)
    say("stream", events=stream, whole=whole)
    text = whole["choices"][0]["message"]["content"]
    stopped = await served.chat("Hello", temperature=0, stop=[text[10:14]])
    say("stop", text=text, stop=text[10:14], choice=stopped["choices"][0])
    several = await served.complete(["Hello", "Hi"], temperature=0, max_tokens=3, n=2, decoding="greedy")
    say("several", choices=several["choices"], usage=several["usage"])
    wrong: list[dict[str, Any]] = [
        {"decoding": "contrastive_search"}, {"num_beams": 3},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"max_tokens": CONTEXT}, {"logit_bias": {"1": 1}}, {"response_format": {"type": "json_object"}},
        {"decoding": "beam_search", "num_beams": 9},
    ]  # fmt: skip
    say("errors", errors=[await served.chat("Hello", **fields) for fields in wrong])
    say("too long", error=await served.complete([5] * CONTEXT, max_tokens=1))
    say("unknown token", error=await served.complete([10**6], max_tokens=1))
    say("embeddings", error=await answer(served.engine.embeddings(None)))


async def main() -> None:
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    for name in ("llama", "neox", "window", "mamba"):
        served = Served(TINY if name == "llama" else made(name, tokenizer))
        await served.start()
        await greedy(name, served)
        await seeds(name, served)
        await beams(name, served)
        await processed(name, served)
        if name == "llama":
            await api(served)
            await speed(served)
            await cancelled(served)
            await failures(served)
        else:
            await served.engine.check_health()
        await served.engine.shutdown()
    await unloadable(TINY)
    deployed()


if __name__ == "__main__":
    asyncio.run(main())
