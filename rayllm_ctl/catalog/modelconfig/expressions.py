"""Regular expressions of a config.json, matched in bounded time.

Whoever made a checkpoint wrote its ignore list, and `re` needs longer than anybody waits for `(.*)*x` or for ten times
`.*`. So `re` matches only what it finds in a few attempts. The others are matched as sets of positions: from the
positions where a part of the expression may begin follow those where it may end, all at once and without backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.problems import quoted

_LONGEST_NAME = 80
"""Characters of the longest name of a module."""

_FEW = 200
"""Ways to read a name that `re` may have to try."""

_MANY = 10**6
_ENOUGH = 20  # times 2 ways are many

_MOST_COST = 20_000
_MOST_DEPTH = 20
_MATCH_COST = 2
_SHOWN = 60

_TOKEN = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|P<\w+>))?"
    r"|\{(?:\d+(?:,\d*)?|,\d*)\}|.",
    re.S,
)
_FLAGS = re.compile(r"\(\?[aimsu]+\)")
_REPEATED = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLASSES = frozenset("dDsSwWafnrtvxu")
"""Letters that name characters after a backslash; others are references and what is not read here."""


class _Subject:
    """A text, with the positions of its characters as bits."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, int] = {}
        for position, character in enumerate(text):
            self.places[character] = self.places.get(character, 0) | 1 << position
        self.all = (1 << len(text) + 1) - 1
        self.end = 1 << len(text)

    @cached_property
    def edges(self) -> int:
        """The positions between a character of a word and another one."""
        word = sum(places for character, places in self.places.items() if _is_of(r"\w", "", character))
        return word ^ (word << 1)


_subject = lru_cache(4096)(_Subject)

MatchStep = Callable[[_Subject, int], int]
"""From the positions where a part of an expression may begin to those where it may end."""


class _Part(NamedTuple):
    """A part of an expression. ways: how often it may match from one position, at most; cost: of a step, in fractions
    of a microsecond; among: the characters, of a part that is one character."""

    step: MatchStep
    ways: int = 1
    cost: int = 1
    among: Callable[[_Subject], int] | None = None


class BoundedExpression:
    """One expression, matched from the start of a name as by `re.match`. cost: of a match, in fractions of a
    microsecond."""

    def __init__(self, pattern: str) -> None:
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise _rejected(pattern, "is invalid", str(error)) from error
        part = _Reader(pattern).read()
        few = part.ways <= _FEW
        if not few and part.cost > _MOST_COST:
            raise _rejected(pattern, "is too complex", "its quantifiers or lookaheads are nested")
        self.cost = _MATCH_COST + part.ways // 10 if few else part.cost
        self._compiled, self._step = compiled, None if few else part.step

    def matches(self, name: str) -> bool:
        if self._step is None:
            return self._compiled.match(name) is not None
        return bool(self._step(_subject(name), 1))


def _rejected(pattern: str, what: str, why: str) -> UsageError:
    shown = pattern if len(pattern) <= _SHOWN else pattern[: _SHOWN - 3] + "..."
    return UsageError(
        f"config.json: an expression of quantization_config {what}: {quoted(shown)}: {why}",
        hint="--model-config FILE    # a copy of config.json with another expression",
    )


class _Reader:
    """Reads one pattern that `re` accepts."""

    def __init__(self, pattern: str) -> None:
        flags = _FLAGS.match(pattern)
        self._pattern, self._flags = pattern, flags[0] if flags else ""
        self._tokens = _TOKEN.findall(pattern, len(self._flags))
        self._at = self._depth = 0

    def read(self) -> _Part:
        branches = self._branches()
        if len(branches) == 1 and branches[0] and branches[0][-1] is _REST:
            branches[0].pop()  # a final .* matches whatever is left
        return _either([_joined(branch) for branch in branches])

    def _branches(self) -> list[list[_Part]]:
        """Up to the end of the group."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise _rejected(self._pattern, "is too complex", f"groups are nested more than {_MOST_DEPTH} deep")
        branches: list[list[_Part]] = [[]]
        while self._at < len(self._tokens) and self._tokens[self._at] != ")":
            if self._tokens[self._at] == "|":
                self._at += 1
                branches.append([])
            else:
                branches[-1].append(self._quantified())
        self._at += 1
        self._depth -= 1
        return branches

    def _quantified(self) -> _Part:
        part = self._single()
        following = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if following not in _REPEATED and not (following.startswith("{") and len(following) > 1):
            return part
        self._at += 1
        suffix = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if suffix == "+":
            raise self._unread(following + suffix)
        self._at += suffix == "?"  # where a lazy match ends is of no interest
        return _repeated(part, *_bounds(following))

    def _single(self) -> _Part:
        token = self._tokens[self._at]
        self._at += 1
        if token.startswith("("):
            if self._tokens[self._at] == "?":
                raise self._unread("".join(self._tokens[self._at - 1 : self._at + 2]))
            inner = _either([_joined(branch) for branch in self._branches()])
            return _looking(token, inner) if token[-1] in "=!" else inner
        if token in _ANCHORS:
            return _Part(_ANCHORS[token])
        if len(token) > 1 and token[0] == "\\" and token[1].isalnum() and token[1] not in _CLASSES:
            raise self._unread(token)
        return _character(token, self._flags)

    def _unread(self, construct: str) -> UsageError:
        return _rejected(self._pattern, "is not supported", f"it has {construct}")


_ANCHORS: dict[str, MatchStep] = {
    "^": lambda subject, starts: starts & 1,  # noqa: ARG005
    r"\A": lambda subject, starts: starts & 1,  # noqa: ARG005
    "$": lambda subject, starts: starts & subject.end,
    r"\Z": lambda subject, starts: starts & subject.end,
    r"\b": lambda subject, starts: starts & subject.edges,
    r"\B": lambda subject, starts: starts & ~subject.edges,
}


def _bounds(quantifier: str) -> tuple[int, int | None]:
    if quantifier in _REPEATED:
        return _REPEATED[quantifier]
    low, comma, high = quantifier[1:-1].partition(",")
    return int(low or 0), int(high) if high else None if comma else int(low)


def _everything(subject: _Subject) -> int:
    return subject.all >> 1


_REST = _Part(lambda subject, starts: subject.all & -(starts & -starts) if starts else 0, ways=_LONGEST_NAME + 1)
"""Any number of any characters."""


def _joined(parts: Sequence[_Part]) -> _Part:
    """Parts one after another."""

    def step(subject: _Subject, starts: int) -> int:
        for part in parts:
            if not starts:
                break
            starts = part.step(subject, starts)
        return starts

    if len(parts) == 1:
        return parts[0]
    ways = 1
    for part in parts:
        ways = min(ways * part.ways, _MANY)
    return _Part(step, ways, sum(part.cost for part in parts))


def _either(parts: Sequence[_Part]) -> _Part:
    """Alternatives."""

    def step(subject: _Subject, starts: int) -> int:
        ends = 0
        for part in parts:
            ends |= part.step(subject, starts)
        return ends

    if len(parts) == 1:
        return parts[0]
    return _Part(step, sum(part.ways for part in parts), sum(part.cost for part in parts))


def _repeated(part: _Part, low: int, high: int | None) -> _Part:
    """A part from `low` to `high` times; None: any number of times."""

    def step(subject: _Subject, starts: int) -> int:
        for _ in range(low):
            ends = part.step(subject, starts)
            if ends == starts:
                break
            starts = ends
        if high is None and part.among is not None:
            among = part.among(subject)
            return starts | (((starts & among) + among) ^ among)  # a carry runs through adjacent positions
        ends, count = starts, low
        while starts and count != high:
            starts = part.step(subject, starts) & ~ends
            ends |= starts
            count += 1
        return ends

    if (low, high) == (0, None) and part.among is _everything:
        return _REST
    most = min(_LONGEST_NAME, _LONGEST_NAME if high is None else high)
    ways = max(most - low, 0) + 1 if part.ways == 1 else min(part.ways ** min(most, _ENOUGH) + (low == 0), _MANY)
    single = high is None and part.among is not None
    return _Part(step, ways, low + 2 if single else part.cost * most)


def _looking(token: str, inner: _Part) -> _Part:
    """What must, or must not, stand before or behind a position."""
    behind, wanted = "<" in token, token.endswith("=")

    def step(subject: _Subject, starts: int) -> int:
        if behind:  # of a fixed width, so the end of a match is enough
            found = starts & inner.step(subject, subject.all)
        else:
            found = sum(
                1 << at for at in range(starts.bit_length()) if starts >> at & 1 and inner.step(subject, 1 << at)
            )
        return found if wanted else starts & ~found

    return _Part(step, inner.ways + 1, inner.cost * (1 if behind else _LONGEST_NAME))


def _character(written: str, flags: str) -> _Part:
    """One character: itself, one of a class, or any."""
    if written == ".":
        among = _everything
    else:

        def among(subject: _Subject) -> int:
            return sum(places for one, places in subject.places.items() if _is_of(written, flags, one))

        if len(written) == 1 and not flags:

            def among(subject: _Subject) -> int:
                return subject.places.get(written, 0)

    return _Part(lambda subject, starts: (starts & among(subject)) << 1, among=among)


@lru_cache(4096)
def _is_of(token: str, flags: str, character: str) -> bool:
    return re.fullmatch(flags + token, character) is not None
