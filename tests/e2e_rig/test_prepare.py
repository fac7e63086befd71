from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from e2e.cluster import build, cache, host, images, prepare, shell, store
from e2e.cluster.errors import RigError
from e2e.cluster.images import Planned
from e2e.cluster.modules import KUBERAY, KUBERNETES, KWOK, Module
from e2e.cluster.progress import Progress
from e2e.cluster.state import Options
from e2e.images.oci import Image


class Machine:
    """Imitations of the compiler and of the import: what they do is written into `did`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[str] = []
        self.said: list[str] = []
        self.fails: Module | None = None
        self.waits: dict[str, threading.Event] = {}
        monkeypatch.setattr(build, "ensure", self.build)
        monkeypatch.setattr(store, "_import", self.import_)
        monkeypatch.setattr(host, "missing_packages", lambda: [])
        names = (("serving image", None), ("coredns", KUBERNETES), ("operator", KUBERAY))
        planned = [Planned(name, f"key-of-{name}", module, self.pack(name)) for name, module in names]
        monkeypatch.setattr(images, "plan", lambda: planned)

    def build(self, module: Module, _: Progress) -> Path:
        if module == self.fails:
            raise RigError(f"{module.name} does not compile")
        if module.name in self.waits:
            assert self.waits[module.name].wait(30)
        self.did.append(f"built {module.name}")
        return Path("/built")

    def pack(self, name: str) -> Callable[[Progress], Image]:
        def make(_: Progress) -> Image:
            self.did.append(f"made {name}")
            return Image(name, Path("/archive"))

        return make

    def import_(self, made: Iterable[Image], out: Path, _: Progress) -> None:
        for image in made:
            self.did.append(f"imported {image.ref}")
            for event in self.waits.values():
                event.set()
        (out / "database").touch()

    def prepare(self, options: Options) -> Path:
        return prepare.prepare(options, self.said.append, lambda: self.did.append("installed"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Machine(monkeypatch)


def test_an_image_is_imported_while_a_program_of_another_is_still_compiled(machine: Machine) -> None:
    machine.waits["kubernetes"] = threading.Event()  # Set by the first import.
    template = machine.prepare(Options())
    assert (template / "database").exists()
    assert machine.did.index("imported serving image") < machine.did.index("built kubernetes")
    assert machine.did.index("built kubernetes") < machine.did.index("made coredns")
    assert {"imported coredns", "imported operator", "built kuberay", "installed"} <= set(machine.did)
    assert "built kwok" not in machine.did
    assert machine.said[-1] == "[4/4] image store is ready"


def test_what_is_there_is_not_made_again(machine: Machine) -> None:
    template = machine.prepare(Options())
    machine.did.clear()
    machine.said.clear()
    assert machine.prepare(Options(simulate=("L4:1x1",))) == template
    assert "built kwok" in machine.did
    assert not [what for what in machine.did if what.startswith(("made", "imported"))]


def test_programs_that_others_wait_for_are_ended_when_a_part_fails(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_one(module: Module, progress: Progress) -> Path:
        if module == KUBERNETES:
            shell.run(["sleep", "600"])
        return machine.build(module, progress)

    machine.fails = KWOK

    monkeypatch.setattr(build, "ensure", build_one)
    with pytest.raises(RigError, match="kwok does not compile"):
        machine.prepare(Options(simulate=("L4:1x1",)))
    assert store.found(store.key(f"key-of-{name}" for name in ("serving image", "coredns", "operator"))) is None
    assert not list(cache.root().glob("store/[!.]*"))
