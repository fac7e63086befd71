"""The image of the Redis: what is packed, and what is said where Debian's package is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster.errors import RigError
from e2e.images import redis

LDD = """\
\tlinux-vdso.so.1 (0x00007f844739c000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f844729b000)
\tlibgone.so.1 => not found
\t/lib64/ld-linux-x86-64.so.2 (0x00007f844739e000)
"""


def test_libraries_and_loader_are_packed_and_nothing_of_the_kernel() -> None:
    assert redis.libraries(LDD) == ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]


def test_without_the_package_its_name_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RigError, match="redis-check-rdb is not installed") as caught:
        redis.ensure("example.com/redis:7")
    assert caught.value.hint == "apt-get install redis-tools"
