"""Loads a model and its tokenizer, and says what is missing if it cannot."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, Final

import torch

from rayllm_ctl.serving.generation.settings import CPU, Settings

_DISK: Final = "disk"


class LoadError(RuntimeError):
    """The model cannot be loaded; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """device: where tokens go in."""

    model: Any
    tokenizer: Any
    device: torch.device
    end_tokens: tuple[int, ...]
    vocabulary: int
    """Ids of tokens are below this number."""


def load(source: str, settings: Settings) -> Loaded:
    """The model of a directory or a hub repository. It blocks for as long as that takes. Raises LoadError."""
    _check_packages(settings)
    if settings.gpus > torch.cuda.device_count():
        raise LoadError(f"the replica sees {torch.cuda.device_count()} GPUs, and transformers.gpus is {settings.gpus}")
    try:
        tokenizer, model = _from_pretrained(source, settings)
    except torch.OutOfMemoryError as error:
        raise LoadError(f"{source} does not fit into the memory of {settings.gpus} GPUs: {error}") from error
    except (OSError, ValueError, ImportError) as error:
        raise LoadError(f"{source} cannot be loaded: {error}{_hint(error, settings)}") from error
    placed = set(map(str, getattr(model, "hf_device_map", {}).values()))
    allowed = {CPU} if settings.gpus == 0 or settings.offloads else set()
    if outside := sorted({CPU, _DISK} & placed - allowed):
        raise LoadError(
            f"{source} does not fit: layers would be kept on {' and '.join(outside)}. Use more GPUs "
            "(engine.transformers.gpus), quantization, or allow (more) CPU memory (engine.transformers.cpuMemory)"
        )
    _check_context(source, model, settings)
    return Loaded(
        model=model.eval(),
        tokenizer=tokenizer,
        device=_device(model),
        end_tokens=_set_end_tokens(model, tokenizer),
        vocabulary=model.get_input_embeddings().num_embeddings,
    )


def _from_pretrained(source: str, settings: Settings) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    what: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
    if settings.revision is not None:
        what["revision"] = settings.revision
    tokenizer = AutoTokenizer.from_pretrained(source, **what)
    placement: dict[str, Any] = {}
    if settings.gpus > 0:
        placement = {"device_map": "auto", "max_memory": _max_memory(settings)}
    if settings.quantization is not None:
        placement["quantization_config"] = _quantization(settings)
    return tokenizer, AutoModelForCausalLM.from_pretrained(source, dtype=settings.dtype, **what, **placement)


def _max_memory(settings: Settings) -> dict[int | str, Any]:
    """What accelerate may use; without a word about the CPU it would use its memory, too."""
    if settings.max_memory is not None:
        return {CPU: 0, **settings.max_memory}
    from accelerate.utils import get_max_memory

    return {**get_max_memory(), CPU: 0}


def _quantization(settings: Settings) -> Any:
    from transformers import BitsAndBytesConfig

    if settings.quantization == "bitsandbytes-8bit":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_enable_fp32_cpu_offload=settings.offloads)
    kept = torch.bfloat16 if settings.dtype == "auto" else getattr(torch, settings.dtype)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_compute_dtype=kept, llm_int8_enable_fp32_cpu_offload=settings.offloads
    )


def _check_packages(settings: Settings) -> None:
    wanted = {"accelerate": settings.gpus > 0, "bitsandbytes": settings.quantization is not None}
    missing = [name for name, needed in wanted.items() if needed and importlib.util.find_spec(name) is None]
    if missing:
        raise LoadError(
            f"the image lacks the Python packages {' and '.join(missing)}; `rayllm-ctl image recipe` prints a "
            "Dockerfile for an image that has them"
        )


def _check_context(source: str, model: Any, settings: Settings) -> None:
    most = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if isinstance(most, int) and settings.max_model_len > most:
        raise LoadError(f"{source} has {most} positions, and transformers.max_model_len is {settings.max_model_len}")


def _hint(error: Exception, settings: Settings) -> str:
    if "trust_remote_code" in str(error) and not settings.trust_remote_code:
        return ". If you trust the code of its repository, set engine.transformers.trustRemoteCode to true"
    return ""


def _device(model: Any) -> torch.device:
    """The first GPU with layers: weights that are kept in CPU memory are moved to it for each step."""
    placed = [place for place in getattr(model, "hf_device_map", {}).values() if str(place) not in (CPU, _DISK)]
    return torch.device(placed[0]) if placed else model.device


def _set_end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Those of generation_config.json, as in `generate`; if it has none, the tokenizer's from now on."""
    if model.generation_config.eos_token_id is None:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
    given = model.generation_config.eos_token_id
    if given is None:
        return ()
    return (given,) if isinstance(given, int) else tuple(given)
