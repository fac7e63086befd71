"""What a request asks for, read from its body. Every error names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from rayllm_ctl.serving.gateway.body.endpoints import CHAT, COMPLETIONS, check_body
from rayllm_ctl.serving.gateway.body.engines import of_engine
from rayllm_ctl.serving.gateway.errors import Rejected, invalid
from rayllm_ctl.serving.generation.settings import Settings

Kind = Literal["greedy", "sampling", "beam_search"]

DEFAULT_COMPLETION_TOKENS: Final = 16
"""OpenAI's default of `max_tokens` for POST /v1/completions, and vLLM's."""

_PROMPT: Final = {"messages", "prompt", "add_generation_prompt", "continue_final_message", "add_special_tokens"}
_PROMPT_OPTIONS: Final = {"chat_template_kwargs"}
_UNUSED: Final = {"model", "user", "request_id"}
"""Names that say who asks, and what: no answer depends on them."""

_DECODING: Final = {
    "decoding", "temperature", "top_k", "top_p", "repetition_penalty", "min_tokens", "num_beams", "length_penalty",
    "seed", "ignore_eos",
}  # fmt: skip
_ANSWER: Final = {"max_tokens", "max_completion_tokens", "n", "stop", "stream", "stream_options"}
_SUPPORTED: Final = _PROMPT | _PROMPT_OPTIONS | _UNUSED | _DECODING | _ANSWER

_DISABLED: Final[dict[str, tuple[object, ...]]] = {
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "min_p": (0, 0.0),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "tools": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "use_beam_search": (False,),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_reasoning": (True,),
    "return_token_ids": (False,),
    "priority": (0,),
    "store": (False,),
}
"""Values of fields that are not supported with which they ask for nothing."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How tokens are chosen. None is the model's own default (generation_config.json)."""

    kind: Kind
    temperature: float | None = None
    top_k: int | None = None
    """0: of all tokens."""
    top_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int = 0
    num_beams: int = 1
    length_penalty: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Parameters:
    """A request but for its prompt."""

    model: str
    decoding: Decoding
    max_tokens: int | None
    """None: as many as fit into the context."""
    max_tokens_field: str | None
    """Which field says so; None if the number is a default, which the context may cut."""
    n: int
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool


def read_parameters(body: dict[str, Any], settings: Settings, *, chat: bool) -> Parameters:
    """The body of POST /v1/chat/completions, or of /v1/completions. Raises Rejected (400)."""
    check_body(of_engine(CHAT if chat else COMPLETIONS, "transformers"), body)
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        if name not in _SUPPORTED and not any(
            type(value) is type(none) and value == none for none in _DISABLED.get(name, ())
        ):
            raise _unsupported(name)
    options = given.get("stream_options", {})
    for name, value in options.items():
        if name != "include_usage" and value:
            raise _unsupported(f"stream_options.{name}")
    decoding = _decoding(given, settings)
    field = next((name for name in ("max_completion_tokens", "max_tokens") if chat and name in given), None)
    if not chat and "max_tokens" in given:
        field = "max_tokens"
    default = None if chat else DEFAULT_COMPLETION_TOKENS
    most = given[field] if field else default
    if most is not None and decoding.min_tokens > most:
        raise invalid(f"min_tokens: {decoding.min_tokens} is more than {field or 'max_tokens'} ({most})", "min_tokens")
    n = given.get("n", 1)
    if decoding.kind == "beam_search" and n > decoding.num_beams:
        raise invalid(f"n: must be at most num_beams ({decoding.num_beams}) with beam_search", "n")
    stop = given.get("stop", [])
    return Parameters(
        model=given.get("model", ""),
        decoding=decoding,
        max_tokens=most,
        max_tokens_field=field,
        n=n,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stream=given.get("stream", False),
        include_usage=options.get("include_usage") or False,
    )


def _decoding(given: dict[str, Any], settings: Settings) -> Decoding:
    asked = given.get("decoding")
    kind: Kind = cast(Kind, asked) or ("greedy" if given.get("temperature") == 0 else "sampling")
    beams = _beams(given, kind, settings)
    if asked in ("greedy", "beam_search"):
        _reject_sampling(given, asked)
    if kind == "sampling" and given.get("temperature") == 0:
        raise invalid("temperature: must be greater than 0 with decoding sampling", "temperature")
    top_k = given.get("top_k")
    return Decoding(
        kind=kind,
        temperature=given.get("temperature"),
        top_k=0 if top_k == -1 else top_k,
        top_p=given.get("top_p"),
        repetition_penalty=given.get("repetition_penalty"),
        min_tokens=given.get("min_tokens", 0),
        num_beams=beams,
        length_penalty=float(given.get("length_penalty", 1.0)),
        seed=given.get("seed"),
        ignore_eos=given.get("ignore_eos", False),
    )


def _beams(given: dict[str, Any], kind: Kind, settings: Settings) -> int:
    if kind != "beam_search":
        for name, without in (("num_beams", None), ("length_penalty", 1)):
            if name in given and given[name] != without:
                raise invalid(f"{name}: has a meaning with decoding beam_search only", name)
        return 1
    if "num_beams" not in given:
        raise invalid("num_beams: required with decoding beam_search", "num_beams", "missing_required_parameter")
    beams: int = given["num_beams"]
    if beams > settings.max_batch_size:
        raise invalid(
            f"num_beams: must be at most {settings.max_batch_size}, the sequences that are generated at once",
            "num_beams",
        )
    if given.get("ignore_eos"):
        raise invalid("ignore_eos: is not supported with decoding beam_search", "ignore_eos")
    return beams


def _reject_sampling(given: dict[str, Any], kind: str) -> None:
    """Options of sampling in a request that says that nothing is sampled."""
    for name, without in (("temperature", (0,)), ("top_p", (1,)), ("top_k", (-1, 0))):
        if name in given and given[name] not in without:
            raise invalid(f"{name}: has no effect with decoding {kind}; leave it out, or use sampling", name)


def _unsupported(name: str) -> Rejected:
    return invalid(f"{name}: not supported by models of the Transformers engine", name, "unsupported_parameter")
