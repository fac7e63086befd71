from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster.capacity import Claim, disguise, with_total

MEMINFO = """\
MemTotal:       24684092 kB
MemFree:         1000000 kB
MemAvailable:   20000000 kB
Buffers:          100000 kB
"""


def test_memory_in_all_changes_and_memory_in_use_does_not() -> None:
    told = dict(line.split(":") for line in with_total(MEMINFO, 2 * 1024**4).splitlines())
    values = {name: int(value.removesuffix(" kB")) for name, value in told.items()}
    assert values["MemTotal"] == 2 * 1024**3
    assert values["MemTotal"] - values["MemAvailable"] == 24684092 - 20000000
    assert values["MemTotal"] - values["MemFree"] == 24684092 - 1000000
    assert values["Buffers"] == 100000


def test_a_meminfo_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="MemTotal"):
        with_total("nothing\n", 1)


def test_the_kubelet_is_shown_as_many_cpus_as_are_claimed(tmp_path: Path) -> None:
    mounts = {str(target): source for source, target in disguise(Claim(cpus=96), tmp_path)}
    shown = mounts["/sys/devices/system/cpu"]
    assert len(list(shown.glob("cpu*[0-9]"))) == 96
    # With NUMA nodes in sight the kubelet would count theirs.
    assert not list(mounts["/sys/devices/system/node"].iterdir())
    assert "/proc/meminfo" not in mounts


def test_a_claim_of_memory_is_shown_in_meminfo(tmp_path: Path) -> None:
    mounts = {str(target): source for source, target in disguise(Claim(memory=1024**4), tmp_path)}
    assert f"{1024**3} kB" in mounts["/proc/meminfo"].read_text().splitlines()[0]
