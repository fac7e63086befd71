"""`image recipe`: the Dockerfiles of the controller and for CI. tests/render/test_gateway.py has the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rayllm_ctl import __version__
from rayllm_ctl.cli import app

CHART = Path(__file__).parents[3] / "charts" / "rayllm-operator"


def recipe(capsys: pytest.CaptureFixture[str], *flags: str, kind: str = "--controller") -> str:
    assert app.run(["image", "recipe", kind, *flags]) == 0
    return capsys.readouterr().out


def test_the_controller_is_installed_from_the_wheel_of_this_version(capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe(capsys)
    wheel = f"rayllm_ctl-{__version__}-py3-none-any.whl"
    assert re.findall(r"^COPY (\S+) /tmp/$", text, re.M) == [wheel]
    assert f"install --no-cache-dir /tmp/{wheel}" in text
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["python:3.12-slim"] * 2
    assert not re.search(r"vllm|torch|cuda|nvidia|ray-llm|root", text)


def test_it_runs_as_the_chart_wants_it(capsys: pytest.CaptureFixture[str]) -> None:
    lines = recipe(capsys).splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert [re.fullmatch(r"([1-9]\d+):\1", user) is not None for user in users] == [True]
    assert 'ENTRYPOINT ["rayllm-ctl"]' in lines
    deployment = (CHART / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    assert "        args:\n        - controller\n" in deployment
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert f"rayllm-controller:{about['appVersion']} " in lines[2]


def test_another_base(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.findall(r"^FROM (\S+)", recipe(capsys, "--image", "mirror.example/python:3.12"), re.M)
    assert found == ["mirror.example/python:3.12"] * 2


def test_an_image_for_ci_has_a_shell_as_its_command_and_git(capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe(capsys, kind="--ci")
    assert f"COPY rayllm_ctl-{__version__}-py3-none-any.whl /tmp/\n" in text
    assert "install -y --no-install-recommends git " in text
    assert not re.search(r"^(ENTRYPOINT|USER)", text, re.M)
    other = recipe(capsys, "--image", "mirror.example/python:3.14", kind="--ci")
    assert re.findall(r"^FROM (\S+)", other, re.M) == ["mirror.example/python:3.14"] * 2


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--controller", "--vllm-version", "0.29.0"), "--vllm-version: the image of the controller has no vLLM"),
        (("--ci", "--vllm-version", "0.29.0"), "--vllm-version: the image for CI has no vLLM"),
        (("--ci", "--image", "not an image"), "--image: not a valid image reference, such as python:3.12-slim"),
        (("--controller", "--image", "not an image"), "--image: not a valid image reference, such as python:3.12-slim"),
        (("--ci", "--controller"), "--controller and --ci are two images"),
    ],
)
def test_what_does_not_apply(flags: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["image", "recipe", *flags]) == 2
    assert error in capsys.readouterr().err
