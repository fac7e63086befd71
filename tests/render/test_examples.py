"""The examples in manifests/: what `render -f` prints of each spec file, byte by byte, from the built-in catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from tests.conftest import Golden

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = sorted(str(path.parent.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("llmservice.yaml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    code = app.run(["render", "--offline", "-f", str(MANIFESTS / name / "llmservice.yaml")])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    Golden(MANIFESTS / name, request.config.getoption("--update")).check("rayservice.yaml", out)
