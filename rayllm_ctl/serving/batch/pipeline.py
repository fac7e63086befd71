"""The Ray Data pipeline: reads the prompts of parts, asks the engines, and gives back answers."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import ray
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.data.llm import build_processor, vLLMEngineProcessorConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayllm_ctl.serving.batch import columns
from rayllm_ctl.serving.batch.crashes import Ledger, guarded
from rayllm_ctl.serving.batch.parts import Answer, Part
from rayllm_ctl.serving.batch.prompts import Prompts
from rayllm_ctl.serving.batch.readers import reader
from rayllm_ctl.serving.batch.settings import Settings

STAGE_VARIABLE = "RAYLLM_BATCH_ENGINE_STAGE"
"""`package.module:Class` of a stage that takes the place of vLLM's."""

_READ_TASKS = 500
"""The most read tasks. Each has consecutive parts, so that few parts are open at a time."""


def answers(settings: Settings, parts: list[tuple[int, Part]]) -> Iterator[tuple[int, int, Answer]]:
    """(number of the part, index of the row in it, answer) for each row of the parts, in any order."""
    if not ray.is_initialized():
        ray.init()
    context = DataContext.get_current()
    context.enable_progress_bars = False
    dataset = ray.data.read_datasource(_Prompts(settings, parts), override_num_blocks=min(len(parts), _READ_TASKS))
    for table in _processor(settings)(dataset).iter_batches(
        batch_format="pyarrow", batch_size=None, prefetch_batches=1
    ):
        yield from _rows(table)


def _processor(settings: Settings) -> Any:
    engine = settings.engine
    stand_in = os.environ.get(STAGE_VARIABLE)
    config = vLLMEngineProcessorConfig(
        model_source=engine.model,
        engine_kwargs=dict(engine.kwargs),
        task_type=settings.task,
        batch_size=engine.batchSize,
        max_concurrent_batches=engine.maxConcurrentBatches,
        concurrency=engine.concurrency,
        accelerator_type=engine.acceleratorType,
        placement_group_config=engine.placementGroup,
        should_continue_on_error=True,
        # vLLM tokenizes prompts and detokenizes answers itself; the chat stage of ours tokenizes what it makes.
        chat_template_stage=settings.chat and not stand_in,
        tokenize_stage=False,
        detokenize_stage=False,
    )
    processor = build_processor(config, postprocess=columns.result)
    if stand_in:
        module, _, name = stand_in.partition(":")
        stage = getattr(importlib.import_module(module), name)
    else:
        from rayllm_ctl.serving.batch import engine as stages

        stage = stages.engine_stage(engine, settings.storage)
        if settings.chat:
            _replace(processor, "ChatTemplateStage", stages.ChatStage)
    _replace(processor, "vLLMEngineStage", guarded(stage, _ledger()))
    return processor


def _ledger() -> Any:
    """The actor beside this process, which is lost only with it."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0)(Ledger).options(scheduling_strategy=here).remote()


def _replace(processor: Any, name: str, udf: type[Any]) -> None:
    """Put a class in the place of a stage's own.

    A copy: assigning to `fn` validates the stage again, whose validator has consumed the placement group by then, so
    that the engine would ask for other resources.
    """
    processor.stages[name] = processor.stages[name].model_copy(update={"fn": udf})


class _Prompts(Datasource):  # type: ignore[misc]
    """Rows of (part, index, prompt or messages, sampling parameters): never the user's columns."""

    def __init__(self, settings: Settings, parts: list[tuple[int, Part]]) -> None:
        super().__init__()
        self._settings, self._parts = settings, parts

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002 - Ray Data passes it by name
    ) -> list[ReadTask]:
        tasks = []
        count = max(1, min(parallelism, len(self._parts)))
        for i in range(count):
            low, high = (len(self._parts) * n // count for n in (i, i + 1))
            parts = self._parts[low:high]
            rows = sum(part.rows for _, part in parts)
            metadata = BlockMetadata(num_rows=rows, size_bytes=None, exec_stats=None, input_files=None)
            read = functools.partial(_blocks, self._settings, parts)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _blocks(settings: Settings, parts: list[tuple[int, Part]]) -> Iterator[pa.Table]:
    prompts, source = Prompts(settings), reader(settings)
    lora = settings.engine.loraPath is not None
    for number, part in parts:
        asks = [prompts.try_ask(row) for row in source.read(part)]
        yield columns.block(number, asks, settings, lora=lora)


def _rows(table: pa.Table) -> Iterator[tuple[int, int, Answer]]:
    names = set(table.column_names)
    if not names:
        return
    empty = [None] * table.num_rows
    columns_of = {name: table.column(name).to_pylist() if name in names else empty for name in columns.RESULT}
    for row in zip(*columns_of.values(), strict=True):
        yield columns.answer(dict(zip(columns.RESULT, row, strict=True)))
