"""Spec files: YAML with line numbers in its errors, and back."""

from __future__ import annotations

from rayllm_ctl.specfile.load import load, load_file
from rayllm_ctl.specfile.schema import schema
from rayllm_ctl.specfile.write import to_document, to_yaml

__all__ = ["load", "load_file", "schema", "to_document", "to_yaml"]
