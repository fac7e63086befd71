"""The Ray Data pipeline: reads the prompts of parts, asks the engines, and gives back answers."""

from __future__ import annotations

import functools
import importlib
import os
import queue
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import ray
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.data.llm import build_processor, vLLMEngineProcessorConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayllm_ctl.serving.batch.inference import columns
from rayllm_ctl.serving.batch.inference.crashes import Ledger, guarded
from rayllm_ctl.serving.batch.inference.prompts import Prompts
from rayllm_ctl.serving.batch.parts import Answer, News, Part
from rayllm_ctl.serving.batch.readers import reader
from rayllm_ctl.serving.batch.settings import Settings

STAGE_VARIABLE = "RAYLLM_BATCH_ENGINE_STAGE"
"""`package.module:Class` of a stage that takes the place of vLLM's."""

_READ_TASKS = 500
"""The most read tasks. Each has consecutive parts, so that few parts are open at a time."""

_LOOK_SECONDS = 1.0
"""How often the driver asks for answers that wait for the rest of their batch."""

_BLOCKS_AHEAD = 2
"""Blocks that wait for the driver while it writes a part."""

Known = Mapping[int, Collection[int]]
"""Rows that are not to be asked, by the number of their part."""


def answers(settings: Settings, parts: list[tuple[int, Part]], known: Known) -> Iterator[News]:
    """The answers to all rows of the parts that are not known, in any order and some of them twice.

    There are news every _LOOK_SECONDS at least, whether or not there are answers.
    """
    if not ray.is_initialized():
        ray.init()
    context = DataContext.get_current()
    context.enable_progress_bars = False
    dataset = ray.data.read_datasource(
        _Prompts(settings, parts, known), override_num_blocks=min(len(parts), _READ_TASKS)
    )
    # Ray Data passes on what a task makes of its block when all of it is done, so a block is a batch of the engine.
    dataset = dataset.repartition(target_num_rows_per_block=settings.engine.batchSize)
    ledger = _ledger()
    blocks = _processor(settings, ledger)(dataset).iter_batches(
        batch_format="pyarrow", batch_size=None, prefetch_batches=1
    )
    yield from _with_early(_Fetched(blocks), ledger)


def _with_early(blocks: _Fetched, ledger: Any) -> Iterator[News]:
    """The answers of blocks as they come, and of the ledger at least every _LOOK_SECONDS."""
    engines, looked = 0, 0.0
    with blocks:
        while True:
            table = blocks.next(_LOOK_SECONDS)
            found = list(_rows(table)) if table is not None else []
            if (now := time.monotonic()) - looked >= _LOOK_SECONDS:
                looked = now
                engines, early = ray.get(ledger.news.remote())
                found += [columns.answer(row) for row in early]
            yield News(found, engines)
            if blocks.ended:
                return


class _Fetched:
    """Blocks that another thread takes from Ray Data, so that the driver need not wait for one.

    `ended`: whether the last one has been taken.
    """

    def __init__(self, blocks: Iterable[pa.Table]) -> None:
        self._blocks = blocks
        self._queue: queue.Queue[pa.Table | BaseException | None] = queue.Queue(_BLOCKS_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="blocks")
        self.ended = False

    def __enter__(self) -> _Fetched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def next(self, seconds: float) -> pa.Table | None:
        """The next block, or None if there is none within this time. Raises what Ray Data raises."""
        try:
            found = self._queue.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        self.ended = found is None
        return found

    def _run(self) -> None:
        try:
            for block in self._blocks:
                self._put(block)
                if self._stop.is_set():
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: pa.Table | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return


def _processor(settings: Settings, ledger: Any) -> Any:
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
        from rayllm_ctl.serving.batch.inference import engine as stages

        stage = stages.engine_stage(engine, settings.storage)
        if settings.chat:
            _replace(processor, "ChatTemplateStage", stages.ChatStage)
    _replace(processor, "vLLMEngineStage", guarded(stage, ledger))
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

    def __init__(self, settings: Settings, parts: list[tuple[int, Part]], known: Known) -> None:
        super().__init__()
        self._settings, self._parts, self._known = settings, parts, known

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
            known = {number: self._known[number] for number, _ in parts if number in self._known}
            rows = sum(part.rows - len(known.get(number, ())) for number, part in parts)
            metadata = BlockMetadata(num_rows=rows, size_bytes=None, exec_stats=None, input_files=None)
            read = functools.partial(_blocks, self._settings, parts, known)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _blocks(settings: Settings, parts: list[tuple[int, Part]], known: Known) -> Iterator[pa.Table]:
    prompts, source = Prompts(settings), reader(settings)
    lora = settings.engine.loraPath is not None
    for number, part in parts:
        rows = [(index, row) for index, row in enumerate(source.read(part)) if index not in known.get(number, ())]
        asks = [prompts.try_ask(row) for _, row in rows]
        yield columns.block(number, asks, settings, lora=lora, indexes=[index for index, _ in rows])


def _rows(table: pa.Table) -> Iterator[tuple[int, int, Answer]]:
    names = set(table.column_names)
    if not names:
        return
    empty = [None] * table.num_rows
    columns_of = {name: table.column(name).to_pylist() if name in names else empty for name in columns.RESULT}
    for row in zip(*columns_of.values(), strict=True):
        yield columns.answer(dict(zip(columns.RESULT, row, strict=True)))
