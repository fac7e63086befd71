from __future__ import annotations

import pytest

from rayllm_ctl.render import servingcode


@pytest.fixture(autouse=True)
def serving_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """No golden file has the code that runs in pods, its digest or its release; and examples render quickly."""
    for name in ("models_files", "ingress_files", "batch_files", "storage_files"):
        monkeypatch.setattr(servingcode, name, lambda *_: {"rayllm_ctl/__init__.py": ""})
    monkeypatch.setattr(servingcode, "digest", lambda _: "0" * 64)
    monkeypatch.setattr(servingcode, "archive", lambda _: b"the code")
    monkeypatch.setattr(servingcode, "__version__", "1.2.3")
