from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cli import app
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving
from tests.cluster.fakepool import answering

_VOLATILE = (
    (re.compile(r"^\d\d:\d\d:\d\d ", re.M), "hh:mm:ss "),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://SERVER"),
    (re.compile(r"\b(for|after|age) +(\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+s)\b"), r"\1 AGE"),
    (re.compile(r"(?<=  )(\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+s)(?=  )"), "AGE"),
    (re.compile(r"\b(FOR|AGE|LEFT) {2,}"), r"\1  "),  # as wide as the ages below
    (re.compile(r'"(since|observedAt)": "[^"]*"'), r'"\1": "TIME"'),
)


@dataclass(frozen=True)
class Result:
    """What a command came to, without times and ports."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


Run = Callable[..., Result]


@pytest.fixture
def api(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAPI]:
    """A cluster with KubeRay's operator, which makes RayServices and RayClusters Ready as soon as they are applied.

    It answers in this process; where a test is marked `connections`, over loopback.
    """
    reconcilers = {"RayService": fakekuberay.reconcile, "RayCluster": fakekuberay.reconcile_cluster}
    connections = request.node.get_closest_marker("connections")
    with serving() if connections else answering(monkeypatch) as running:
        fakekuberay.operator(running)
        running.applied = lambda item: (
            reconcilers[item["kind"]](running, item) if item["kind"] in reconcilers else None
        )  # fmt: skip
        yield running


@pytest.fixture
def run(api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs rayllm-ctl in this process against the fake API server."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", api.url, token="t")))
    monkeypatch.setenv("CI", "true")

    def command(*arguments: str) -> Result:
        capsys.readouterr()
        code = app.run([*arguments])
        out, err = capsys.readouterr()
        for pattern, word in _VOLATILE:
            out, err = pattern.sub(word, out), pattern.sub(word, err)
        return Result(code, out, err)

    return command


Deploy = Callable[..., None]
_AFTER_DEPLOY: dict[tuple[str, ...], dict[str, Any]] = {}


@pytest.fixture
def deploy(run: Run, api: FakeAPI) -> Deploy:
    """Runs `deploy` with some flags in a new cluster. Where that was done before, the cluster gets what it led to."""

    def command(*arguments: str) -> None:
        assert api.requests == []
        if arguments not in _AFTER_DEPLOY:
            result = run("deploy", *arguments)
            assert result.code == 0, str(result)
            _AFTER_DEPLOY[arguments] = api.saved()
        api.restore(_AFTER_DEPLOY[arguments])

    return command
