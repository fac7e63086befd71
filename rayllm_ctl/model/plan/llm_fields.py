"""The configuration fields of a model in one version of Ray Serve LLM."""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class LLMFields:
    """ray, vllm: the versions. classes: the fields of each section by name, with their types as type_problem takes
    them; one that is required begins with `!`. deployment: options of a deployment. accelerators: Ray's names of their
    types. arguments: engine arguments with their types. gpu_types: Ray's names of the types of GPUs, by what people
    call them. note: what to know of it, or empty.
    """

    ray: str
    vllm: str
    classes: Mapping[str, Mapping[str, str]]
    deployment: tuple[str, ...]
    accelerators: tuple[str, ...]
    arguments: Mapping[str, str]
    gpu_types: Mapping[str, str]
    note: str = ""
