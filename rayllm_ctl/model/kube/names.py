"""Names: what Kubernetes and KubeRay accept, and a service's name from a model's."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_SERVICE_NAME = 47
"""KubeRay v1.6 rejects RayService names above 47 characters (it appends a suffix for the RayCluster and its pods)."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def service_name_problem(name: str) -> str | None:
    """Why `name` is not a valid name of a RayService, or None."""
    if len(name) > MAX_SERVICE_NAME:
        return f"must be no more than {MAX_SERVICE_NAME} characters, not {len(name)}"
    if not _DNS_1035.fullmatch(name):
        return (
            "a DNS-1035 label must consist of lower-case letters, digits and '-', start with a letter, and end with a "
            "letter or digit"
        )
    return None


def namespace_problem(name: str) -> str | None:
    """Why `name` is not a valid namespace (DNS-1123 label), or None."""
    if len(name) > 63 or not _DNS_1123.fullmatch(name):
        return (
            "a DNS-1123 label must consist of at most 63 lower-case letters, digits and '-', and start and end with a "
            "letter or digit"
        )
    return None


def service_name(model_id: str) -> str:
    """The default name of a model's service: its last path component as a DNS-1035 label (Qwen3-32B -> qwen3-32b)."""
    name = re.sub(r"[^a-z0-9]+", "-", model_id.rstrip("/").rsplit("/", 1)[-1].lower()).strip("-")
    if not name or not name[0].isalpha():
        name = f"llm-{name}".rstrip("-")
    return name[:MAX_SERVICE_NAME].rstrip("-")


INGRESS_BUILDER = "rayllm_ctl.serving.ingress:build"
MODEL_BUILDER = "rayllm_ctl.serving.model:build"
"""Import paths of the Serve applications of an ingress and of each model behind it."""

INGRESS_DEPLOYMENT = "OpenAiIngress"
"""The name that Ray Serve LLM gives to the deployment in front of the models."""


ENGINE_DEPLOYMENT = "LLMServer:"
"""How the names of the deployments of models begin (Ray 2.60, ray/llm/_internal/serve)."""


def engine_deployment(model_id: str) -> str:
    """The name that Ray Serve LLM gives to the deployment of a model."""
    return ENGINE_DEPLOYMENT + deployment_suffix(model_id)


def deployment_suffix(model_id: str) -> str:
    """The part of it that says which model it is."""
    return model_id.replace("/", "--").replace(".", "_")


def similar(word: str, known: Iterable[str], count: int, cutoff: float) -> list[str]:
    """The known words that are most similar to `word`, at most `count`. cutoff: how similar at least, from 0 to 1."""
    import difflib

    return difflib.get_close_matches(word, list(known), n=count, cutoff=cutoff)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be, or None."""
    close = similar(word, known, 1, _CUTOFF)
    return close[0] if close else None


_CUTOFF = 0.6


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question after the known words that `word` was probably meant to be, all that are as near; empty without one.

    Nearest are those with the fewest typing errors: "modle" is one away from "mode", and one from "model".
    """
    close = similar(word, known, 3, _CUTOFF)
    errors = {one: typing_errors(word, one) for one in close}
    near = [one for one in close if errors[one] == min(errors.values())]
    return f"did you mean {' or '.join(near)}?" if near else ""


def typing_errors(one: str, other: str) -> int:
    """Letters that are missing, too many, wrong, or swapped with the next (the optimal string alignment distance)."""
    before, last = list[int](), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, wanted in enumerate(other, 1):
            least = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != wanted))
            swapped = row > 1 and column > 1 and (letter, one[row - 2]) == (other[column - 2], wanted)
            now.append(min(least, before[column - 2] + 1) if swapped else least)
        before, last = last, now
    return last[-1]
