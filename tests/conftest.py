"""Fixtures of the fast tests: golden files, an environment without the user's own settings, hypothesis profiles."""

from __future__ import annotations

import difflib
import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import settings

from tests import documents
from tests.bases import BASE_OF, store, stored
from tests.differences import DoesNotApplyError

settings.register_profile("fast", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

gc.set_threshold(100_000)  # the collector would look through all tests and modules again and again


def pytest_configure(config: pytest.Config) -> None:
    documents.install()
    config.addinivalue_line("markers", "connections: needs the fake API server on loopback, not in this process")


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files with what the program prints now")


DERIVED = pytest.StashKey[list[tuple[Path, str, str]]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Differences are written last, from bases that have all been written."""
    for file, text, base in session.config.stash.get(DERIVED, []):
        store(file, text, base)


class Golden:
    """Compares text with the files of `golden/` beside a test module, or in a folder above it."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        self.folder, self.config = folder, config

    def check(self, name: str, text: str) -> None:
        """Fail with a diff unless `text` is what the file `name` holds; with --update write it."""
        path, base = self.folder / name, BASE_OF.get(name)
        if self.config.getoption("--update"):
            if base is None:
                store(path, text, None)
            else:
                self.config.stash.setdefault(DERIVED, []).append((path, text, base))
            return
        try:
            expected = stored(path)
        except DoesNotApplyError as error:
            pytest.fail(f"{path} is not a difference from its base as it is now: {error} (pytest --update rewrites it)")
        diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", lineterm="")
        assert text == expected, "\n".join(diff) + "\n(pytest --update rewrites golden files)"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    above = (folder / "golden" for folder in request.path.parents)
    return Golden(next(filter(Path.is_dir, above), request.path.parent / "golden"), request.config)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that do not exist yet: most tests need no home, and a `tmp_path` for each would take seconds in all."""
    base = tmp_path_factory.mktemp("home")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(scope="session", autouse=True)
def _own_hub_environment() -> Iterator[None]:
    """Of these variables, huggingface-hub keeps what they are when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
        patch.setattr(constants, "HF_TOKEN_PATH", os.devnull)
        patch.setattr(constants, "HF_STORED_TOKENS_PATH", os.devnull)
        yield


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, _homes: Iterator[Path]) -> None:
    """No test sees the user's kubeconfig, settings or hub token."""
    for name in list(os.environ):
        if name.startswith(("RAYLLM_", "HF_", "KUBE")) or name in ("NO_COLOR", "CI"):
            monkeypatch.delenv(name)
    home = next(_homes)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
