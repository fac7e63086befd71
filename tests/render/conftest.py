from __future__ import annotations

import pytest

from rayllm_ctl.render import servingcode


@pytest.fixture(autouse=True)
def serving_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """No golden file has the gateway's code, or the digest of what it is now; and examples render quickly."""
    monkeypatch.setattr(servingcode, "files", lambda: {"rayllm_ctl/serving/__init__.py": "# the code\n"})
    monkeypatch.setattr(servingcode, "digest", lambda: "0" * 64)
