"""Flags of `vllm serve`, and what sets the same here."""

from __future__ import annotations

import shlex

from rayllm_ctl.catalog.engines import engine, engine_versions
from rayllm_ctl.model.spec.checks.engine_args import FRONTEND_ARGUMENTS, OWN_FIELD, forbidden_args, holds_a_credential

_SHORT = {
    "-cc": "compilation_config",
    "-dcp": "decode_context_parallel_size",
    "-dp": "data_parallel_size",
    "-ep": "enable_expert_parallel",
    "-pp": "pipeline_parallel_size",
    "-q": "quantization",
    "-sc": "speculative_config",
    "-tp": "tensor_parallel_size",
}
"""Short names of vLLM (vllm/engine/arg_utils.py, 0.29)."""


def instead_of(flag: str, value: str | None) -> str:
    """What to type instead of a flag of vLLM and its value, or why nothing does; empty if vLLM has no such flag.

    value: None if no value follows.
    """
    if value is not None and holds_a_credential(value):
        value = None
    name, negated = _SHORT.get(flag, flag.lstrip("-").replace("-", "_")), False
    known = {**FRONTEND_ARGUMENTS, **engine(engine_versions()[-1]).arguments}
    if name not in known and name.removeprefix("no_") in known:
        name, negated = name.removeprefix("no_"), True
    if name in OWN_FIELD:
        own = OWN_FIELD[name][1]
        return own if " " in own else f"{own} {shlex.quote(value) if value else _placeholder(known.get(name, ''))}"
    reason = {**forbidden_args("raycluster"), **forbidden_args("rayservice")}.get(name)
    if reason is not None:
        return f"vLLM's {flag} cannot be set: {reason}"
    if name not in known:
        return ""
    if known[name] == "bool" or negated or (value is None and "bool" in known[name]):
        given = "false" if negated else "true"
    else:
        given = value or _placeholder(known[name])
    return f"--engine-arg {shlex.quote(f'{name}={given}')}"


def _placeholder(types: str) -> str:
    return "N" if {"int", "float"} & set(types.split("|")) else "VALUE"
