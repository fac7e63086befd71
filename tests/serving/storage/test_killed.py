"""Downloads that are killed: whatever byte they have reached, the marker is right and little is fetched twice."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from rayllm_ctl.serving.storage import transfer
from tests.serving.storage.conftest import PART_BYTES, Rig, content, model, told

SIZE = sum(map(len, model().values()))
UNWRITTEN = transfer.FILES * transfer.WINDOW * PART_BYTES
"""What a process can have received and not written yet."""
IN_FLIGHT = 8 << 20
"""What the server can have sent that the process never saw: buffers of the kernel."""


def run_until(rig: Rig, sent: int) -> subprocess.Popen[str]:
    """Start a download and kill it once the server has sent so much more."""
    rig.hub.pace, rig.hub.piece = 0.002, 1 << 13
    begin, job = rig.hub.sent, rig.start()
    while job.poll() is None and rig.hub.sent - begin < sent:
        time.sleep(0.001)
    job.kill()
    job.communicate()
    rig.hub.pace = 0.0
    return job


def unfinished(rig: Rig) -> int:
    """The bytes that are on the disk."""
    return sum(path.stat().st_size for path in rig.target.parent.rglob("*") if path.is_file())


def check(rig: Rig, seed: int) -> None:
    chance = random.Random(seed)
    run_until(rig, chance.randrange(SIZE))
    marked = (rig.target / ".rayllm-complete").exists()
    if marked:
        assert content(rig.target) == model()
    on_disk = 0 if marked else unfinished(rig)
    job = rig.start()
    out, err = job.communicate()
    assert job.returncode == 0, (out, err)
    assert content(rig.target) == model()
    done = told(out)[-1]
    assert done["fetched"] <= (0 if marked else SIZE - max(0, on_disk - len(model()) * 400)), (seed, on_disk)


@pytest.mark.parametrize("seed", range(20))
def test_a_killed_download_continues(rig: Rig, seed: int) -> None:
    check(rig, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 120))
def test_a_killed_download_continues_anywhere(rig: Rig, seed: int) -> None:
    check(rig, seed)


def test_a_download_that_is_killed_repeatedly_comes_to_its_end(rig: Rig) -> None:
    for _ in range(5):
        run_until(rig, SIZE // 4)
    job = rig.start()
    out, err = job.communicate()
    assert job.returncode == 0, (out, err)
    assert content(rig.target) == model()
    assert rig.hub.sent <= SIZE + 5 * (UNWRITTEN + IN_FLIGHT)


def test_a_part_that_was_changed_on_the_disk_is_not_trusted(rig: Rig) -> None:
    run_until(rig, SIZE // 2)
    for part in Path(rig.target.parent / "main.partial" / ".rayllm-parts").iterdir():
        found = part.read_bytes()
        part.write_bytes(found[:-1] + bytes((found[-1] ^ 1,)) if found else found)
    job = rig.start()
    _, err = job.communicate()
    assert job.returncode == 0, err
    assert content(rig.target) == model()
