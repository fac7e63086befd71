"""Requests of many lengths: what a replica meets of them at a moment, which is not an average request.

A request with an answer of A tokens is in A decode steps, so among the requests in flight at a moment those with long
answers are more frequent than among all: each by its A (length bias, as in renewal theory), and each at any of its A
tokens. With P and A the lengths of a prompt and its answer, and E the mean over requests:

    tokens before a decode step    E[A (P + A / 2)] / E[A], for one length P + A / 2
    KV cache at the end            E[A (P + A)] / E[A], for one length P + A

What the attention of a prompt computes grows with the square of its length, so the time of prompts is the mean over
their lengths, not the time of the mean; and how long they wait for one another follows from its second moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.lengths import Lengths, Shares

LONG = 0.95
"""A long prompt is one that this share of prompts does not exceed."""

_CLASSES = 7.0
"""Classes between a length and e times as much: the lengths in one are within 15 %."""

Requests = tuple[tuple[float, float, float], ...]
"""(weight, tokens of the prompt, tokens of the answer)."""


@dataclass(frozen=True)
class Mix:
    """Requests that a context holds: the mean lengths, and classes of them.

    prompts: lengths of prompts. contexts: tokens of a request before a decode step; ends: tokens of a request in flight
    when it ends; both as they are at a moment. long_prompt: tokens. beyond: the share of requests whose prompt exceeds
    the context, which vLLM rejects.
    """

    input_tokens: int
    output_tokens: int
    prompts: Shares
    contexts: Shares
    ends: Shares
    long_prompt: int
    beyond: float


@cache
def mixed(prompts: Lengths, answers: Lengths, context: int) -> Mix:
    """Prompts and answers whose lengths do not depend on each other, in a context of `context` tokens."""
    pairs = ((p * a, given, answered) for p, given in prompts.classes() for a, answered in answers.classes())
    return mix_of(tuple(pairs), context)


def mix_of(requests: Requests, context: int) -> Mix:
    """`requests` in a context of `context` tokens, which ends an answer that reaches it."""
    held = [(weight, p, max(1.0, min(a, context - p))) for weight, p, a in requests if p < context]
    total, fitting = sum(weight for weight, _, _ in requests), sum(weight for weight, _, _ in held)
    if not held or not fitting:
        held, fitting = [(1.0, max(1.0, context - 1.0), 1.0)], 1.0
        total = fitting
    prompts = classified((weight, p) for weight, p, _ in held)
    return Mix(
        max(1, round(sum(weight * p for weight, p, _ in held) / fitting)),
        max(1, round(sum(weight * a for weight, _, a in held) / fitting)),
        prompts,
        classified((weight * a, p + a / 2) for weight, p, a in held),
        classified((weight * a, p + a) for weight, p, a in held),
        _reached(prompts, LONG),
        max(0.0, 1 - fitting / total),
    )


def classified(weighed: Iterable[tuple[float, float]]) -> Shares:
    """(weight, length) in classes of similar lengths, each with its mean."""
    weights: dict[int, float] = {}
    products: dict[int, float] = {}
    for weight, length in weighed:
        key = int(_CLASSES * math.log(length))
        weights[key] = weights.get(key, 0.0) + weight
        products[key] = products.get(key, 0.0) + weight * length
    total = sum(weights.values())
    return tuple((weights[key] / total, products[key] / weights[key]) for key in sorted(weights) if weights[key] > 0)


def _reached(classes: Shares, wanted: float) -> int:
    below = 0.0
    for share, tokens in classes:
        below += share
        if below >= wanted:
            return math.ceil(tokens)
    return math.ceil(classes[-1][1])
