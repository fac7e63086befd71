"""Checks of a batch job's LoRA adapters: spec.model.loraPath and spec.model.adapter."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.checks.batch_files import input_format
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential
from rayllm_ctl.model.spec.checks.pod_fields import is_absolute
from rayllm_ctl.model.text.patterns import Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

STORE = Pattern(r"(s3|gs)://(?:anonymous@)?[A-Za-z0-9][^\s?#\\]*")
"""A folder in an object store that the engines copy adapters from."""


def adapter_problems(batch: BatchJob) -> Iterator[Problem]:
    """All that is wrong with them."""
    folder, adapter, form = batch.model.lora_path, batch.model.adapter, input_format(batch.input)
    at: Path = ("spec", "model", "loraPath")
    if folder is not None and holds_a_credential(folder):
        yield Problem(at, "contains credentials", "spec.storage.credentialsSecret, the name of a Secret (--s3-secret)")
    elif folder is not None and not is_absolute(folder) and not STORE.fullmatch(folder):
        yield Problem(
            at,
            f"{quoted(folder)} is neither an absolute path of a directory nor a folder of an object store, such as "
            "s3://bucket/adapters",
        )
    if folder is not None and adapter is None and form not in ("openai", None):
        yield Problem(
            at,
            f"requires spec.model.adapter for rows of {form}: the subfolder with the adapter that answers them",
            "--adapter NAME    # only the lines of OpenAI batch files (--input-format openai) name their adapter",
        )
    if folder is not None and form == "openai" and batch.accelerator.kind == "cpu":
        yield Problem(
            at,
            "is not supported for openai on CPUs: vLLM 0.29 gives adapters to lines there that name the model itself",
            "a GPU, or another format with spec.model.adapter",
        )
    if adapter is not None:
        yield from _adapter(batch, adapter, form)


def _adapter(batch: BatchJob, adapter: str, form: str | None) -> Iterator[Problem]:
    at: Path = ("spec", "model", "adapter")
    if batch.model.lora_path is None:
        yield Problem(
            at, "requires spec.model.loraPath, the folder that contains the adapter's folder", "--lora-path PATH"
        )
    if form == "openai":
        yield Problem(at, "does not apply to openai: every line names its adapter as its model", "remove it")
    if adapter in ("", ".", "..") or not adapter.isprintable() or "/" in adapter or "\\" in adapter:
        yield Problem(at, f"{quoted(adapter)} is not the name of a subfolder of spec.model.loraPath")
    elif adapter in (batch.model.id, batch.model.path):
        yield Problem(at, f"{quoted(adapter)} is the name of the model itself")
