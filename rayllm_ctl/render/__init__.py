"""Manifests from a plan: values decided in Python, laid out by thin templates, validated, dumped canonically."""

from __future__ import annotations

from rayllm_ctl.render.manifests import Manifest, render

__all__ = ["Manifest", "render"]
