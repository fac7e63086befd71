"""Rules of one model, alone in a service or one of several, in CEL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rayllm_ctl.model.spec.checks.engine_args import OWN_FIELD, forbidden_args
from rayllm_ctl.model.spec.checks.storage.loading import DOWNLOADS, FORMAT, ON_CUDA, SHARDED
from rayllm_ctl.specfile.crd.rule import CelRule, by_default, has, some, unless, value
from rayllm_ctl.specfile.crd.schema import Schema

ON_CPU = f"{value('accelerator.kind', repr('gpu'))} == 'cpu'"
ON_TRANSFORMERS = f"{value('engine.kind', repr('vllm'))} == 'transformers'"
OF_CPUS = "does not apply to CPU services"
ARGS = ".engine.args"
LORA = "engine.args.enable_lora"

ALSO_NAMED = ("enable_lora", FORMAT, DOWNLOADS, "kv_cache_memory_bytes")
"""Engine arguments that are permitted, and that rules name."""


def args_named(mode: str) -> tuple[str, ...]:
    """The engine arguments that a service of this mode may not set."""
    return tuple(sorted({*OWN_FIELD, *forbidden_args(mode)}))


def forbidden(names: tuple[str, ...], condition: str = "") -> Iterator[CelRule]:
    """A rule for each engine argument that has a field of its own, and one for the rest."""
    guard = f"!({condition}) || " if condition else ""
    for name in names:
        if name in OWN_FIELD:
            field, _ = OWN_FIELD[name]
            yield CelRule(f"{guard}!({has(f'engine.args.{name}')})", f"{name} has a field of its own: {field}", ARGS)
    rest = [name for name in names if name not in OWN_FIELD]
    if rest:
        given = " || ".join(f"has(self.engine.args.{name})" for name in rest)
        yield CelRule(f"{guard}!({has('engine.args')}) || !({given})", f"cannot be set: {', '.join(rest)}", ARGS)


def named_keys(names: Iterable[str]) -> Schema:
    """The schemas of keys of a free-form mapping that rules name. What is never permitted may be of any type."""
    return {name: dict(_PERMITTED.get(name, _NEVER)) for name in sorted({*names})}


_NEVER: Schema = {"x-kubernetes-int-or-string": True, "maxLength": 1024}
_WORD: Schema = {"type": "string", "maxLength": 1024}

_PERMITTED: Mapping[str, Schema] = {
    "disable_log_stats": {"type": "boolean"},
    "distributed_executor_backend": _WORD,
    "download_dir": _WORD,
    "enable_lora": {"type": "boolean"},
    "host": _WORD,
    "kv_cache_memory_bytes": {"type": "integer"},
    "load_format": _WORD,
    "port": {"type": "integer"},
}
"""The types of engine arguments that rules reject in one place and permit in another."""


def of_one_model() -> Iterator[CelRule]:
    """What engine, accelerator and parallelism of a model say together."""
    yield CelRule(unless(ON_CPU, "engine.gpuMemoryUtilization"), OF_CPUS, ".engine.gpuMemoryUtilization")
    yield CelRule(
        f"!({ON_CPU}) || {by_default('parallelism.acrossNodes', 'false')}", OF_CPUS, ".parallelism.acrossNodes"
    )
    yield CelRule(
        f"{by_default('parallelism.acrossNodes', 'false')} || ({ON_CPU}) || {has('parallelism.tensor')}",
        "requires tensor",
        ".parallelism.acrossNodes",
    )
    yield CelRule(
        f"!({ON_CPU}) || {value('parallelism.pipeline', '1')} <= 1",
        "must be 1 for CPU services: a replica is one pod",
        ".parallelism.pipeline",
    )
    yield CelRule(
        f"!({ON_TRANSFORMERS}) || (!({has('parallelism.tensor')}) && !({has('parallelism.pipeline')}) && "
        f"{by_default('parallelism.acrossNodes', 'false')})",
        "does not apply to engine kind transformers, which spreads whole layers over the GPUs of one pod: "
        "engine.transformers.gpus",
        ".parallelism",
    )
    yield CelRule(
        unless(
            f"{ON_TRANSFORMERS} && {ON_CPU}",
            "engine.quantization",
            "engine.transformers.gpus",
            "engine.transformers.maxMemoryPerGPU",
            "engine.transformers.cpuMemory",
        ),
        "quantization and engine.transformers do not apply to CPU services",
        ".engine",
    )
    yield from _loading()


def _loading() -> Iterator[CelRule]:
    """What the format of the weights requires."""
    given = has(f"engine.args.{FORMAT}")
    cuda, sharded = (
        f"{given} && self.engine.args.{FORMAT} in [{', '.join(map(repr, one))}]" for one in (ON_CUDA, SHARDED)
    )
    yield CelRule(f"!({ON_CPU}) || !({cuda})", f"{' and '.join(ON_CUDA)} do not apply to CPU services", ARGS)
    yield CelRule(
        f"!({sharded}) || {has('parallelism.tensor')}",
        f"required with load_format {' or '.join(SHARDED)}, whose files are for one tensor parallel size",
        ".parallelism.tensor",
    )
    yield CelRule(
        f"!({sharded}) || {value('parallelism.pipeline', '1')} <= 1",
        f"must be 1 with load_format {' or '.join(SHARDED)}, whose files are by tensor parallel rank alone",
        ".parallelism.pipeline",
    )


ENTRY: tuple[CelRule, ...] = (
    CelRule(
        "!has(self.name) || !(self.name in ['ingress', 'headgroup'])",
        "is reserved: workers of the ingress and the head's group are called so",
        ".name",
    ),
    *of_one_model(),
    *forbidden(args_named("rayservice")),
    CelRule(unless(ON_TRANSFORMERS, "adapters[]"), "does not apply to engine kind transformers", ".adapters"),
    CelRule(unless(some("adapters"), LORA), "enable_lora is set by adapters", ARGS),
)
