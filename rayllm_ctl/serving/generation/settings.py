"""How a model is loaded and how much it generates at once: the key `transformers` of an application's args."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rayllm_ctl.serving.gateway.reader import SettingsError, boolean, choice, fields, integer, kind, optional, text

DTYPES: Final = ("auto", "bfloat16", "float16", "float32")
QUANTIZATIONS: Final = ("bitsandbytes-8bit", "bitsandbytes-4bit")
CPU: Final = "cpu"
"""The name of CPU memory in `max_memory` and in a device map of accelerate."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`max_memory`: GPUs by their number, and `cpu`; sizes as accelerate writes them (10GiB)."""

    dtype: str
    max_model_len: int
    """Tokens of a prompt and its answer together."""
    max_batch_size: int
    """Sequences generated at once; each beam of a beam search is one."""
    gpus: int
    cpus: float
    max_memory: Mapping[int | str, str] | None = None
    quantization: str | None = None
    trust_remote_code: bool = False
    revision: str | None = None
    """Branch, tag or commit of the repository, of its code too; None: its default branch."""

    @property
    def offloads(self) -> bool:
        """Whether layers may be kept in CPU memory next to GPUs."""
        return self.gpus > 0 and CPU in (self.max_memory or {})


def read_settings(value: object, path: str = "transformers") -> Settings:
    """Raises SettingsError, which names the field."""
    required = ("dtype", "max_model_len", "max_batch_size", "gpus", "cpus")
    given = fields(value, path, {*required, "max_memory", "quantization", "trust_remote_code", "revision"})
    for name in required:
        if name not in given:
            raise SettingsError(f"{path}.{name}: required")
    gpus = integer(given["gpus"], f"{path}.gpus")
    quantization = optional(
        given.get("quantization"), f"{path}.quantization", lambda item, where: choice(item, where, QUANTIZATIONS)
    )
    if quantization is not None and gpus == 0:
        raise SettingsError(f"{path}.quantization: {quantization} needs a GPU, and gpus is 0")
    return Settings(
        dtype=choice(given["dtype"], f"{path}.dtype", DTYPES),
        max_model_len=integer(given["max_model_len"], f"{path}.max_model_len", 2),
        max_batch_size=integer(given["max_batch_size"], f"{path}.max_batch_size", 1),
        gpus=gpus,
        cpus=_cpus(given["cpus"], f"{path}.cpus"),
        max_memory=optional(
            given.get("max_memory"), f"{path}.max_memory", lambda item, where: _memory(item, where, gpus)
        ),
        quantization=quantization,
        trust_remote_code=boolean(given.get("trust_remote_code", False), f"{path}.trust_remote_code"),
        revision=optional(given.get("revision"), f"{path}.revision", text),
    )


def _cpus(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(f"{path}: must be a number, not {kind(value)}")
    if not 0 < value < 1e6:
        raise SettingsError(f"{path}: {value} is not a positive number of CPUs")
    return value


def _memory(value: object, path: str, gpus: int) -> dict[int | str, str]:
    """Accelerate wants the numbers of GPUs as integers, which keys of JSON cannot be."""
    devices = {str(number): number for number in range(gpus)}
    given = fields(value, path, {*devices, CPU})
    if gpus == 0:
        raise SettingsError(f"{path}: there is nothing to divide, gpus is 0")
    for name in devices:
        if name not in given:
            raise SettingsError(f"{path}.{name}: required, as gpus is {gpus}")
    return {devices.get(name, CPU): text(size, f"{path}.{name}") for name, size in given.items()}
