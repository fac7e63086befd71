"""What cannot work is said, and ends `deploy` where waiting cannot help: its time-out has another exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.harness import Bench
from e2e.running import Running

pytestmark = pytest.mark.xdist_group("failures")


def serve_answer(bench: Bench) -> str:
    for cluster in bench.items("rayclusters"):
        return bench.serve_answer(cluster["metadata"]["name"])
    return ""


def what_it_says(bench: Bench, name: str, *source: str) -> tuple[str, list[tuple[str, str]]]:
    """The state of a service, and the code and object of each cause."""
    health = bench.run("status", name, *source, "-o", "json", code=None).json()
    return health["state"], [(cause["code"], cause["object"]) for cause in health["causes"]]


def assert_a_bundle_says_the_same(bench: Bench, name: str, folder: Path) -> None:
    file = folder / "bundle.tar.gz"

    def recorded() -> tuple[str, list[tuple[str, str]]] | None:
        """The status before and after the bundle was written, if that is the same."""
        file.unlink(missing_ok=True)
        before = what_it_says(bench, name, "-n", bench.namespace)
        bench.run("bundle", name, "-n", bench.namespace, "-o", str(file))
        return before if what_it_says(bench, name, "-n", bench.namespace) == before else None

    live = bench.wait("a status that stays while a bundle is written", recorded, timeout=300)
    assert live[1], live
    assert what_it_says(bench, name, "--from", str(file)) == live


def test_an_image_of_a_registry_that_is_out_of_reach(bench: Bench, tmp_path: Path) -> None:
    """The nodes reach no registry. It may come back, so the wait continues; the cause is shown meanwhile."""
    args = [flag if flag != bench.target.image else "ghcr.io/rayllm/none:0" for flag in bench.tiny("noimage")]
    deploy = Running(bench, *args)
    deploy.says("ImagePullFailed")
    assert_a_bundle_says_the_same(bench, "noimage", tmp_path)
    deploy.interrupt()
    code, err = deploy.ended()
    assert code == 130, err
    assert "ghcr.io/rayllm/none:0" in err


@pytest.mark.slow
def test_a_model_folder_that_does_not_exist(bench: Bench, tmp_path: Path) -> None:
    slow = [f"RAY_SERVE_SLOW_STARTUP_WARNING_{name}" for name in ("S=3", "PERIOD_S=1")]
    flags = bench.tiny("nofolder", "--replicas", "1", *(part for one in slow for part in ("--env", one)))
    result = bench.run(*(flag if flag != "/models/tiny" else "/models/none" for flag in flags), code=1)
    assert "ModelNotFound" in result.err
    assert "/models/none" in result.err
    # Serve tries again. When that takes long, its message is about nothing else; the cause is to stay.
    bench.wait("the next try is slow", lambda: "have taken more than" in serve_answer(bench), timeout=300)
    assert_a_bundle_says_the_same(bench, "nofolder", tmp_path)


@pytest.mark.slow
def test_a_memory_limit_that_is_too_small(bench: Bench) -> None:
    result = bench.run(*bench.tiny("nomemory", "--replicas", "1", "--memory", "1200Mi"), code=1)
    assert "OOMKilled" in result.err
    assert "1200Mi" in result.err
