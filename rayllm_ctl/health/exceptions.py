"""From a traceback, or a log that ends in one, to the exception that matters and the code it stands for."""

from __future__ import annotations

import re

from rayllm_ctl.frozen import dataclass

_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\[(?:\d{1,2};)*\d{1,2}m(?=ray::|\()")
_SECRET = re.compile(r"\b(?:hf_|sk-|ghp_|glpat-)[A-Za-z0-9_-]{16,}|(?<=Bearer )\S+")
"""Tokens that a careless exception may print: of the hub, of OpenAI-like services, of git forges, of HTTP headers."""

_RAY_PREFIX = re.compile(r"^\((?:EngineCore|VllmWorker|Worker|APIServer|ServeReplica|RayWorker)[^)]*\) ?")
_LOG_PREFIX = re.compile(r"^(?:[A-Z]+) [\d-]+ [\d:.,]+ (?P<place>\[[^\]]*\]|\S+ \S+ --) ?")
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Warning|NotFound)|Exception)(?:\(\w+\))?(?::|$)"
)
_WRAPPERS = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|Engine core proc .* died|See root cause above|"
    r"EngineDeadError|The actor died because of an error raised in its creation task"
)
_UNWRAP = re.compile(r"^RuntimeError: (?:Failed to create vLLM engine config: )")
_ERROR_LINE = re.compile(r"^(?:fatal|panic|error)\b|^flag provided but not defined|^unknown (?:flag|option)", re.I)
_START_NOISE = ("cannot modify limit", "Try 'ray start --help'", "Usage: ")
_NOISE = ("For further information visit https://errors.pydantic.dev",)
_TAIL = 120
"""Lines from the end of a log among which an error is looked for: a program's usage may follow it."""

MAX_LINES = 6
"""Lines of an exception's text that are worth quoting: pydantic's and the hub's span a few."""

MAX_CHARACTERS = 700


@dataclass(frozen=True)
class Failure:
    """An exception: `text` as it was raised, on one line; `code` the cause it stands for."""

    code: str
    text: str
    wrapped: bool


# Root causes by what the libraries write, first match wins. Texts as recorded with Ray 2.60, vLLM 0.29 and
# huggingface_hub, and the older spellings of each.
_CODES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern, re.I))
    for code, pattern in (
        ("OOMKilled", r"ray\.exceptions\.OutOfMemoryError|running low on memory|OOM kill reason|memory monitor.*kill"),
        (
            "EngineOutOfMemory",
            r"OutOfMemoryError|(CUDA|HIP|XPU) out of memory|CUDA error: out of memory|"
            r"No available memory for the cache blocks|KV cache is needed, which is larger than|"
            r"larger than the maximum number of tokens that can be stored in KV cache|"
            r"Free memory on device .* less than|Available memory on node .* less than|not enough (GPU )?memory|"
            r"Not enough memory\. Please try to increase|No free memory.*KV|available KV cache memory",
        ),
        (
            "ModelAccessDenied",
            r"gated repo|GatedRepo|is restricted and you are not in the authorized list|awaiting a review from|"
            r"must be authenticated to access|must have access to it",
        ),
        (
            "ModelNotFound",
            r"Repo id must be in the form|is not a local folder and is not a valid model identifier|"
            r"RepositoryNotFound|RevisionNotFound|Repository Not Found|Revision Not Found|EntryNotFound|"
            r"is not a valid git identifier|does not appear to have a file named|No such model directory|"
            r"Invalid repository ID or local directory|Cannot find any model weights|LocalEntryNotFound|"
            r"couldn't find (them|it) in the cached files|NoSuchKey|NoSuchBucket|"
            r"Can't load (the )?(configuration|tokenizer|model)|"
            r"FileNotFoundError.*(model|config\.json|safetensors|tokenizer|weights|checkpoint)",
        ),
        (
            "ModelAccessDenied",
            r"\b40[13] (Client Error|Forbidden|Unauthorized)|HTTP 40[13]|Invalid (username or password|credentials)|"
            r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Unable to locate credentials",
        ),
        ("ModelNotFound", r"404 (Client Error|Not Found).*(hugging|hub|/resolve/|model)|HFValidationError"),
    )
)

DEATH = re.compile(
    r"ActorDiedError|ActorUnavailableError|The actor died unexpectedly|worker died|node (has )?died|"
    r"NodeDiedError|owner died|connection error code|was killed|actor is dead|died unexpectedly",
    re.I,
)
"""A process went away without saying why: what killed it shows elsewhere, in the pods."""


def classify(text: str) -> str:
    """The cause code of an exception's text; ApplicationFailed if it is no special one."""
    flat = " ".join(text.split())
    return next((code for code, pattern in _CODES if pattern.search(flat)), "ApplicationFailed")


def read_failure(text: str) -> Failure | None:
    """The last exception of a traceback, or None if there is none in the text.

    `wrapped`: it only says that the reason stands elsewhere ("See root cause above").
    """
    lines = _lines(text)
    start = _start(lines)
    return _failure(lines, start) if start >= 0 else None


def read_log(log: str) -> Failure | None:
    """The root exception of an engine's log: the last one that neither points elsewhere nor reports a death."""
    lines = _lines(log)
    start = _start(lines)
    while start >= 0:
        found = _failure(lines, start)
        if not found.wrapped and not DEATH.search(found.text):
            return found
        lines = lines[:start]
        start = _start(lines)
    return None


def last_line(log: str) -> str:
    """The line of a container's log that says most: the last error if one stands near the end, else the last line."""
    lines = [line.strip() for _, line in _lines(log) if line.strip() and not any(word in line for word in _START_NOISE)]
    for line in reversed(lines[-_TAIL:]):
        if _EXCEPTION.match(line) or _ERROR_LINE.match(line):
            return one_line(line, 300)
    return one_line(lines[-1], 300) if lines else ""


def one_line(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Text on one line, without colours and tokens, cut to `limit` characters."""
    flat = _SECRET.sub("***", " ".join(_COLOUR.sub("", text).split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _failure(lines: list[tuple[str, str]], start: int) -> Failure:
    tag = lines[start][0]
    block: list[str] = []
    for mark, line in lines[start:]:
        # Another writer's line, or another traceback, does not belong to the exception.
        if mark != tag or len(block) >= MAX_LINES or (block and line.startswith("Traceback (")):
            break
        if line.strip() and not any(noise in line for noise in _NOISE):
            block.append(line)
    text = _UNWRAP.sub("", one_line("\n".join(block)))
    return Failure(classify(text), text, bool(_WRAPPERS.search(text)))


def _start(lines: list[tuple[str, str]]) -> int:
    """Where the last exception begins; -1 without one. "RuntimeError: Traceback …" only carries another traceback."""
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index][1]
        if _EXCEPTION.match(line) and "Traceback (most recent call last)" not in line:
            return index
    return -1


def _lines(text: str) -> list[tuple[str, str]]:
    """Each line as (who wrote it, what): what Ray and the loggers put before a line becomes the writer; colours go."""
    found = []
    for line in text.splitlines():
        bare = _COLOUR.sub("", line).rstrip()
        process = _RAY_PREFIX.match(bare)
        rest = bare[process.end() :] if process else bare
        logger = _LOG_PREFIX.match(rest)
        writer = f"{process[0] if process else ''}{logger['place'] if logger else ''}"
        found.append((writer, rest[logger.end() :] if logger else rest))
    return found
