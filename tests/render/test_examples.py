"""The examples in manifests/: what `render -f` prints of each spec file, byte by byte, from the built-in catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli import app
from tests.bases import BASE_OF
from tests.conftest import Golden

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = sorted(str(path.parent.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("llmservice.yaml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, request: pytest.FixtureRequest, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    code = app.run(["render", "--offline", "-f", str(MANIFESTS / name / "llmservice.yaml")])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    if f"examples/{name}.yaml" in BASE_OF:
        golden.check(f"examples/{name}.yaml", out)
        return
    mode = yaml.safe_load((MANIFESTS / name / "llmservice.yaml").read_text())["spec"].get("mode", "rayservice")
    Golden(MANIFESTS / name, request.config).check(f"{mode}.yaml", out)


def test_the_example_of_a_serve_configuration(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = MANIFESTS / "serve-config"
    flags = ("--serve-config", str(folder / "config.yaml"), "--code", str(folder / "src"), "--name", "clean")
    code = app.run(["render", *flags, "--image", "rayproject/ray:2.60.0"])
    out, _ = capsys.readouterr()
    assert code == 0
    Golden(folder, request.config).check("rayservice.yaml", out)
