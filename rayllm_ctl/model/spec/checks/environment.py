"""Checks of the environment variables that a service sets."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.checks.engine_args import RESERVED_ENV, holds_a_credential, names_a_secret
from rayllm_ctl.model.text.patterns import ENV_NAME, UNSENDABLE
from rayllm_ctl.model.text.problems import Path, Problem


def name_problems(at: Path, name: str) -> Iterator[Problem]:
    """Problems of a variable's name, whatever the source of its value."""
    if not ENV_NAME.fullmatch(name):
        yield Problem(at, "not a valid environment variable name")
    elif name in RESERVED_ENV:
        yield Problem(at, f"cannot be set: {RESERVED_ENV[name]}")


def value_problems(at: Path, name: str, value: str, instead: str) -> Iterator[Problem]:
    """Problems of a variable with a literal value. instead: the place for a credential."""
    if name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        yield Problem(at, "a token must be in a Secret", "spec.model.tokenSecret, or --hf-token-secret NAME/KEY")
    elif names_a_secret(name) or holds_a_credential(value):
        yield Problem(at, "looks like a credential; anyone who can read the RayService could read it", instead)
    elif UNSENDABLE.search(value):
        yield Problem(at, "the value contains control characters that Kubernetes rejects")
