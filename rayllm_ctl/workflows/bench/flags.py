"""The flags of a load test, and their checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import read_input
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.loadtest.prompts import BadPrompts, read_rows
from rayllm_ctl.loadtest.settings import API, Arrivals, Length, Load, Objective, Prompts
from rayllm_ctl.model.spec.form import SecretKey

if TYPE_CHECKING:
    from rayllm_ctl.loadtest.prompts import Tokenizer

DEFAULT_CONCURRENCY = 8
DEFAULT_SECONDS = 30.0
INPUT = Length("fixed", 256, 256)
"""Tokens of a prompt by default."""


_OF_FLAGS = {
    "max_completion_tokens": "--output-tokens",
    "max_tokens": "--output-tokens",
    "messages": "--prompts FILE",
    "model": "--model NAME",
    "prompt": "--prompts FILE",
    "stream": "--stream or --no-stream",
    "stream_options": "--stream or --no-stream",
}
"""Fields that bench sets in every request, and the flag for each."""

_OF_ROWS = {"max_completion_tokens", "max_tokens"}
"""Those of them that a file of prompts may set, for which --set takes precedence."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The user's flags; None and empty: not given. Times in seconds.

    keys: those of api_key_file or, without one, of the environment.
    """

    name: str | None
    url: str | None
    models: tuple[str, ...]
    api: API
    concurrency: tuple[int, ...] | None
    rate: tuple[float, ...] | None
    arrivals: Arrivals
    burst: int | None
    ramp: float | None
    requests: int | None
    duration: float | None
    warmup: int
    answer_timeout: float
    input_tokens: Length | None
    output_tokens: Length
    prefix_tokens: int | None
    prefixes: int
    prompts: Path | None
    tokenizer: str | None
    seed: int
    fields: tuple[tuple[str, Any], ...]
    stream: bool
    slo: Objective | None
    find_max: bool
    ca_file: Path | None
    insecure_skip_tls_verify: bool
    local: bool
    api_key_secret: SecretKey | None
    api_key_file: Path | None
    keys: tuple[str, ...]
    calibrate: Path | None = None
    startup_plans: tuple[Path, ...] = ()


def key_source(flags: Flags) -> str:
    """Where the API keys are from."""
    return f"--api-key-file {flags.api_key_file}" if flags.api_key_file else "RAYLLM_API_KEY"


def check_flags(flags: Flags) -> None:
    """Raise UsageError if flags contradict each other."""
    if (flags.name is None) == (flags.url is None):
        problem = "both NAME and --url were given" if flags.name else "a service or --url is required"
        raise UsageError(problem, hint=("rayllm-ctl bench NAME", "rayllm-ctl bench --url http://HOST:PORT/v1"))
    for field, _ in flags.fields:
        if field in _OF_FLAGS and not (flags.prompts and field in _OF_ROWS):
            raise UsageError(f"--set {field}: bench sets this field itself", hint=_OF_FLAGS[field])
    for name, seconds in (("--duration", flags.duration), ("--answer-timeout", flags.answer_timeout)):
        if seconds == 0:
            raise UsageError(f"{name} must be greater than 0", hint=f"{name} 30s")
    if flags.concurrency and flags.rate:
        raise UsageError("--concurrency and --rate cannot be combined", hint="--rate 4    # requests that do not wait")
    most = max(flags.concurrency or (0,))
    if flags.requests is not None and flags.requests < most:
        raise UsageError(
            f"--requests {flags.requests}: there are never {most} requests in flight (--concurrency)",
            hint=(f"--requests {10 * most}", f"--concurrency {flags.requests}"),
        )
    if flags.find_max and not flags.slo:
        raise UsageError("--find-max requires --slo", hint="--slo ttft=500ms,tpot=50ms")
    if flags.find_max and (flags.concurrency or flags.requests or flags.ramp or (flags.rate and len(flags.rate) > 1)):
        raise UsageError(
            "--find-max searches for a rate: it takes one --rate to start with, and a --duration for each",
            hint="remove --concurrency, --requests and --ramp",
        )
    if (flags.arrivals == "burst") != (flags.burst is not None):
        raise UsageError("--arrivals burst and --burst N require each other", hint="--arrivals burst --burst 10")
    if flags.arrivals != "poisson" and not (flags.rate or flags.find_max):
        raise UsageError(f"--arrivals {flags.arrivals} requires --rate", hint="--rate 4")
    if flags.local and flags.url:
        raise UsageError("--local is for NAME: with --url the load comes from this machine anyway", hint="remove it")
    if flags.api_key_file and flags.name and not flags.local:
        raise UsageError(
            "--api-key-file is for load from this machine; the Job reads a key from a Secret",
            hint=("--api-key-secret NAME/KEY", "--local"),
        )
    if flags.api_key_secret and (flags.local or flags.url):
        raise UsageError("--api-key-secret is for load from inside the cluster", hint="--api-key-file FILE")
    if flags.tokenizer and not flags.prompts and not (flags.local or flags.url):
        raise UsageError(
            "--tokenizer makes prompts on this machine, and the load comes from inside the cluster",
            hint=("--local", "remove --tokenizer: a word then counts as a token"),
        )
    if flags.url is None and (flags.ca_file or flags.insecure_skip_tls_verify):
        raise UsageError("--ca-file and --insecure-skip-tls-verify are for --url", hint="remove them")
    if flags.prompts and (flags.input_tokens or flags.prefix_tokens or flags.prefixes > 1):
        raise UsageError(
            "--input-tokens, --prefix-tokens and --prefixes are for generated prompts",
            hint="remove --prompts, or these flags",
        )
    if flags.prefixes > 1 and not flags.prefix_tokens:
        raise UsageError("--prefixes requires --prefix-tokens", hint="--prefix-tokens 512")
    least = (flags.input_tokens or INPUT).low
    if flags.prefix_tokens and flags.prefix_tokens >= least:
        raise UsageError(
            f"--prefix-tokens {flags.prefix_tokens} leaves nothing of prompts of {least} tokens",
            hint=f"--input-tokens {2 * flags.prefix_tokens}",
        )
    if flags.slo and not flags.stream and (flags.slo.ttft or flags.slo.tpot or flags.slo.itl):
        raise UsageError(
            "--no-stream measures only the time of whole answers", hint="--slo e2e=10s, or remove --no-stream"
        )


def shortest(length: Length) -> int:
    """The least number of tokens of a distribution."""
    return 1 if length.kind == "lognormal" else length.low


def loads(flags: Flags) -> tuple[Load, ...]:
    """The loads to send, one after another."""
    duration = flags.duration if flags.duration or flags.requests else DEFAULT_SECONDS
    common: dict[str, Any] = {
        "requests": flags.requests, "duration": duration, "ramp": flags.ramp or 0.0, "warmup": flags.warmup,
        "timeout": flags.answer_timeout,
    }  # fmt: skip
    if flags.rate or flags.find_max:
        burst = flags.burst or 1
        rates = flags.rate or (1.0,)
        return tuple(Load(rate=rate, arrivals=flags.arrivals, burst=burst, **common) for rate in rates)
    usual = min(DEFAULT_CONCURRENCY, flags.requests or DEFAULT_CONCURRENCY)
    return tuple(Load(concurrency=number, **common) for number in flags.concurrency or (usual,))


def tokenizer_of(name: str | None) -> Tokenizer | None:
    """A folder's or the hub's tokenizer. Raises UsageError if it cannot be loaded."""
    if name is None:
        return None
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise UsageError("--tokenizer requires the package transformers", hint="pip install transformers") from None
    try:
        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # the Rust tokenizers raise nothing narrower
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"--tokenizer {name} cannot be loaded: {reason}", hint="name a folder with tokenizer.json"
        ) from None
    return tokenizer


def prompts_of(flags: Flags, tokenizer: Tokenizer | None) -> Prompts:
    """The content of requests. Raises UsageError for an unusable file."""
    if flags.prompts is None:
        length = flags.input_tokens or INPUT
        return Prompts(length, flags.output_tokens, flags.prefix_tokens or 0, flags.prefixes, seed=flags.seed)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False)) if tokenizer else len(text.split())

    try:
        text = read_input(flags.prompts, "--prompts FILE").decode("utf-8")
        rows = read_rows(text, flags.api, count)
    except BadPrompts as error:
        raise UsageError(
            f"--prompts {flags.prompts}: {error}", hint="see docs/how-to/bench.md for the forms"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompts {flags.prompts} cannot be read as text") from error
    return Prompts(output=flags.output_tokens, rows=rows, seed=flags.seed)
