"""What cannot work is said soon after the first evidence, not at the time-out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from e2e.harness import Bench, Result

LIMIT = 60.0
"""Seconds from the first evidence in the cluster to the end of `deploy`, far below its own time-out. Other tests keep
both cores busy meanwhile."""

POLL_SECONDS = 2.0
"""Between two looks for it, each of which starts two processes. What a look finds may be as old."""


def deploy_until(bench: Bench, evidence: Callable[[], bool], *args: str) -> tuple[Result, float]:
    """Run deploy. Returns its result and the seconds from when `evidence` was first true to its end, at most."""
    first: list[float] = []
    done = threading.Event()

    def poll() -> None:
        while not done.wait(POLL_SECONDS):
            with suppress(AssertionError, ValueError):
                if evidence():
                    first.append(time.monotonic() - POLL_SECONDS)
                    return

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    result = bench.run(*args, code=None)
    end = time.monotonic()
    done.set()
    thread.join(5)
    return result, end - first[0] if first else 0.0


def container_states(bench: Bench) -> str:
    return json.dumps(
        [
            status.get(key)
            for pod in bench.items("pods")
            for field in ("initContainerStatuses", "containerStatuses")
            for status in pod.get("status", {}).get(field, [])
            for key in ("state", "lastState")
        ]
    )


def serve_answer(bench: Bench) -> str:
    for cluster in bench.items("rayclusters"):
        return bench.serve_answer(cluster["metadata"]["name"])
    return ""


def what_it_says(bench: Bench, name: str, *source: str) -> tuple[str, list[tuple[str, str]]]:
    """The state of a service, and the code and object of each cause."""
    health = bench.run("status", name, *source, "-o", "json", code=None).json()
    return health["state"], [(cause["code"], cause["object"]) for cause in health["causes"]]


def assert_a_bundle_says_the_same(bench: Bench, name: str, folder: Path) -> None:
    live = what_it_says(bench, name, "-n", bench.namespace)
    assert live[1], live
    bench.run("bundle", name, "-n", bench.namespace, "-o", str(folder / "bundle.tar.gz"))
    assert what_it_says(bench, name, "--from", str(folder / "bundle.tar.gz")) == live


def test_an_image_of_a_registry_that_is_out_of_reach(bench: Bench, tmp_path: Path) -> None:
    """The nodes reach no registry. It may come back, so the wait goes on; the cause is shown meanwhile."""
    args = [flag if flag != bench.target.image else "ghcr.io/rayllm/none:0" for flag in bench.tiny("noimage")]
    result = bench.run(*args, "--timeout", "40s", code=3)
    assert "ghcr.io/rayllm/none:0" in result.err
    assert "ImagePullFailed" in result.err
    assert_a_bundle_says_the_same(bench, "noimage", tmp_path)


def test_a_model_folder_that_does_not_exist(bench: Bench, tmp_path: Path) -> None:
    slow = [f"RAY_SERVE_SLOW_STARTUP_WARNING_{name}" for name in ("S=3", "PERIOD_S=1")]
    flags = bench.tiny("nofolder", "--replicas", "1", *(part for one in slow for part in ("--env", one)))
    args = [flag if flag != "/models/tiny" else "/models/none" for flag in flags]
    result, seconds = deploy_until(bench, lambda: "DEPLOY_FAILED" in serve_answer(bench), *args)
    assert result.code == 1, str(result)
    assert "ModelNotFound" in result.err
    assert "/models/none" in result.err
    assert seconds <= LIMIT, str(result)
    # Serve tries again. When that takes long, its message is about nothing else; the cause is to stay.
    bench.wait("the next try is slow", lambda: "have taken more than" in serve_answer(bench), timeout=60)
    assert_a_bundle_says_the_same(bench, "nofolder", tmp_path)


def test_a_memory_limit_that_is_too_small(bench: Bench) -> None:
    args = bench.tiny("nomemory", "--replicas", "1", "--memory", "1200Mi")
    result, seconds = deploy_until(bench, lambda: "OOMKilled" in container_states(bench), *args)
    assert result.code == 1, str(result)
    assert "OOMKilled" in result.err
    assert "1200Mi" in result.err
    assert seconds <= LIMIT, str(result)
