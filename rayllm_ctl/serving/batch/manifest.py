"""What the output folder says about the job: which input and settings its parts are of, and which parts are done."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from rayllm_ctl.serving.batch.failures import FAILED, BatchError
from rayllm_ctl.serving.batch.parts import Source
from rayllm_ctl.serving.batch.settings import Settings
from rayllm_ctl.serving.batch.storage import Store
from rayllm_ctl.serving.batch.survey import Plan

FOLDER = "_rayllm"
MANIFEST, RESULT = f"{FOLDER}/manifest.json", f"{FOLDER}/result.json"
VERSION = 1

_NOT_DATA = {FOLDER, "lost+found"}
"""Names that may be in an empty output folder; ext4 puts lost+found into every volume."""

_SPEED = frozenset(
    [
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "gpu_memory_utilization",
        "max_num_seqs",
        "block_size",
        "max_num_batched_tokens",
        "distributed_executor_backend",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "enforce_eager",
        "swap_space",
        "cpu_offload_gb",
        "disable_log_stats",
        "load_format",
        "download_dir",
        "max_parallel_loading_workers",
        "max_loras",
        "max_cpu_loras",
        "max_lora_rank",
    ]
)
"""Engine arguments that change how fast answers come, or whether they fit, but not what they say."""


def identity(settings: Settings, sources: list[Source]) -> dict[str, Any]:
    """All that determines the answers, by section."""
    engine = settings.engine
    return {
        "input": dataclasses.asdict(settings.input),
        "files": [[source.path, source.size, source.changed] for source in sources],
        "prompt": dataclasses.asdict(settings.prompt),
        "sampling": [settings.sampling, settings.samplingColumns, settings.jsonSchema],
        "task": settings.task,
        "model": [engine.model, engine.modelId, engine.loraPath, engine.adapter],
        "engine": {name: value for name, value in engine.kwargs.items() if name not in _SPEED},
        "output": [settings.output.format, settings.output.columns],
        "partRows": settings.job.partRows,
    }


def fingerprints(settings: Settings, sources: list[Source]) -> dict[str, str]:
    """A hash of each section of the identity."""
    return {name: _hash(value) for name, value in identity(settings, sources).items()}


def fingerprint(prints: dict[str, str]) -> str:
    """A hash of all sections."""
    return _hash(prints)


def check(store: Store, prints: dict[str, str]) -> bool:
    """Whether the folder has an earlier run of this job. BatchError if it has something else."""
    found = store.read(MANIFEST)
    if found is None:
        others = [name for name in sorted(store.names()) if name not in _NOT_DATA]
        if others:
            raise BatchError(
                "OutputNotEmpty",
                f"the output folder {store.path} has {len(others)} files of something else, {others[0]} among them",
                "choose an empty folder",
            )
        return False
    try:
        manifest = json.loads(found)
        version, theirs = manifest["version"], dict(manifest["sections"])
    except (ValueError, TypeError, KeyError) as error:
        raise BatchError(
            "OutputNotEmpty", f"{store.path}/{MANIFEST} cannot be read: {error}", "choose an empty folder"
        ) from None
    different = [name for name in prints if theirs.get(name) != prints[name]]
    if version != VERSION or different:
        raise BatchError(
            "OutputNotEmpty",
            f"the output folder {store.path} has the answers of another job, which differs in "
            f"{', '.join(different) or 'version'}",
            "choose an empty folder, or submit the job as it was",
        )
    return True


def write(store: Store, settings: Settings, plan: Plan, prints: dict[str, str]) -> None:
    """Write the manifest, before the first part."""
    rows = dict.fromkeys((source.number for source in plan.sources), 0)
    for part in plan.parts:
        rows[part.source.number] += part.rows
    document = {
        "version": VERSION,
        "name": settings.name,
        "fingerprint": fingerprint(prints),
        "sections": prints,
        "format": settings.output.format,
        "partRows": settings.job.partRows,
        "rows": plan.rows,
        "parts": len(plan.parts),
        "files": [{"path": source.path, "rows": rows[source.number]} for source in plan.sources],
    }
    store.write(MANIFEST, json.dumps(document, indent=1).encode())


def check_rows(store: Store, plan: Plan) -> None:
    """BatchError if the manifest of an earlier run has other counts: the files have changed without a trace."""
    manifest = json.loads(store.read(MANIFEST) or b"{}")
    if (manifest.get("rows"), manifest.get("parts")) != (plan.rows, len(plan.parts)):
        raise BatchError(
            "OutputNotEmpty",
            f"the input had {manifest.get('rows')} rows when the job began, and now it has {plan.rows}",
            "choose an empty folder",
            exit_code=FAILED,
        )


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
