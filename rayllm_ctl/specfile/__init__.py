"""Spec files: YAML or JSON to an LLMService or a BatchJob, with line numbers in errors."""

from __future__ import annotations

from rayllm_ctl.specfile.load import load, load_any_file, load_any_text, load_file

__all__ = ["load", "load_any_file", "load_any_text", "load_file"]
