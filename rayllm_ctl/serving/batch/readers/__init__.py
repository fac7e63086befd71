"""Readers, one for each format of the input."""

from __future__ import annotations

from rayllm_ctl.serving.batch.readers.base import Reader
from rayllm_ctl.serving.batch.readers.csv_files import CsvReader
from rayllm_ctl.serving.batch.readers.inline import InlineReader
from rayllm_ctl.serving.batch.readers.lines import JsonReader, OpenAIReader, TextReader
from rayllm_ctl.serving.batch.readers.parquet import ParquetReader
from rayllm_ctl.serving.batch.settings import Settings

__all__ = ["Reader", "reader"]


def reader(settings: Settings) -> Reader:
    """The reader of the job's input."""
    if settings.input.prompts:
        return InlineReader(settings)
    kinds: dict[str, type[Reader]] = {
        "text": TextReader,
        "jsonl": JsonReader,
        "openai": OpenAIReader,
        "csv": CsvReader,
        "parquet": ParquetReader,
    }
    return kinds[settings.input.format](settings)
