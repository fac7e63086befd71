"""From a traceback, or a log that ends in one, to the exception that matters and the code it stands for."""

from __future__ import annotations

import re

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.sentences.classify import classify

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
_VALIDATION = re.compile(r"(?:[\w.]*ValidationError: )?(?P<count>\d+) validation errors? for (?P<model>\w+)")
_UNWRAP = re.compile(r"^RuntimeError: (?:Failed to create vLLM engine config: )")
_ERROR_LINE = re.compile(r"^(?:fatal|panic|error)\b|^flag provided but not defined|^unknown (?:flag|option)", re.I)
_START_NOISE = ("cannot modify limit", "Try 'ray start --help'", "Usage: ")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)')
_CHAINED = ("direct cause of the following exception", "another exception occurred")
_TRACEBACK = 240
"""Lines before an exception in which its traceback stands."""

_INPUT = re.compile(r" ?\[type=\w+, input_value=.*?, input_type=\w+\]", re.S)
_NOISE = ("For further information visit https://errors.pydantic.dev",)
_TAIL = 120
"""Lines from the end of a log among which an error is looked for: a program's usage may follow it."""

MAX_LINES = 6
"""Lines of an exception's text that are worth quoting: pydantic's and the hub's span a few."""

MAX_CHARACTERS = 700


@dataclass(frozen=True)
class StartFailure:
    """An exception: `text` as it was raised, on one line; `code` the cause it stands for.

    `wrapped`: it only says that the reason stands elsewhere ("See root cause above"). `frames`: files and functions of
    its traceback, by which the same text means different things.
    """

    code: str
    text: str
    wrapped: bool
    frames: str = ""


DEATH = re.compile(
    r"ActorDiedError|ActorUnavailableError|The actor died unexpectedly|worker died|node (has )?died|"
    r"NodeDiedError|owner died|connection error code|was killed|actor is dead|died unexpectedly",
    re.I,
)
"""A process went away without saying why: what killed it shows elsewhere, in the pods."""


def read_failure(text: str) -> StartFailure | None:
    """The last exception of a traceback, or None if there is none in the text."""
    lines = _lines(text)
    start = _start(lines)
    return _failure(lines, start) if start >= 0 else None


def read_exceptions(log: str) -> StartFailure | None:
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
    lines = [one for one in _lines(log) if one[1].strip() and not any(word in one[1] for word in _START_NOISE)]
    for number in range(len(lines) - 1, max(-1, len(lines) - 1 - _TAIL), -1):
        line = lines[number][1].strip()
        if _VALIDATION.match(line):
            # What is invalid, and why, stands in the lines below.
            return one_line(reason(_failure(lines, number).text), 300)
        if _EXCEPTION.match(line) or _ERROR_LINE.match(line):
            return one_line(line, 300)
    return one_line(lines[-1][1], 300) if lines else ""


def reason(text: str) -> str:
    """An exception's text, of pydantic's the part that says why: "1 validation error for X" is only its heading."""
    found = _VALIDATION.match(text)
    rest = text[found.end() :].strip() if found else ""
    return f"{found['model']}: {rest.replace('Value error, ', '', 1)}" if found and rest else text


def one_line(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Text on one line, without colours and tokens, cut to `limit` characters."""
    flat = _SECRET.sub("***", " ".join(_COLOUR.sub("", text).split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _failure(lines: list[tuple[str, str]], start: int) -> StartFailure:
    tag = lines[start][0]
    block: list[str] = []
    heading = _VALIDATION.match(lines[start][1])
    reasons = int(heading["count"]) if heading else 0
    for mark, line in lines[start:]:
        # Another writer's line, or another traceback, does not belong to the exception.
        if mark != tag or len(block) >= MAX_LINES or (block and line.startswith("Traceback (")):
            break
        if any(noise in line for noise in _NOISE):
            reasons -= 1
            if not reasons:
                break
        elif line.strip():
            block.append(line)
    text = _UNWRAP.sub("", one_line(_without_inputs("\n".join(block))))
    frames = _frames(lines, start)
    return StartFailure(classify(text, frames), text, bool(_WRAPPERS.search(text)), frames)


def _without_inputs(text: str) -> str:
    """pydantic's error without the values that it prints behind each reason: they are long and may be secret."""
    return _INPUT.sub("", text)


def _frames(lines: list[tuple[str, str]], start: int) -> str:
    """The files and functions of the exception's traceback, and of those of its causes, by the same writer."""
    tag = lines[start][0]
    mine = [line for mark, line in lines[max(0, start - _TRACEBACK) : start] if mark == tag]
    begin = 0
    for number in range(len(mine) - 1, -1, -1):
        if mine[number].startswith("Traceback ("):
            before = next((line for line in reversed(mine[:number]) if line.strip()), "")
            if not any(words in before for words in _CHAINED):
                begin = number
                break
    found = (_FRAME.match(line) for line in mine[begin:])
    return " ".join(f"{one['file']} {one['function']}" for one in found if one)


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
