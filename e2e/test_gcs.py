"""Batch jobs from and to gs://, with the driver of the pods against a server of Google's API.

It needs no cluster. The tests are those of the driver, which skip them where the server is not built.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster import build, modules
from e2e.cluster.progress import to_stderr

pytestmark = [pytest.mark.xdist_group("gcs"), pytest.mark.slow]

ROOT = Path(__file__).parents[1]
TESTS = "tests/serving/batch/test_gcs.py"


def test_the_driver_reads_and_writes_google_cloud_storage() -> None:
    build.ensure(modules.FAKE_GCS_SERVER, to_stderr())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout
    print(f"\n{done.stdout.splitlines()[-1]}")
