"""Bundles that are written: what is read from them gives the same health."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from pathlib import Path

import pytest

from rayllm_ctl.changes.redaction import redacted, redacted_text
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.workflows.observe.bundle.read import namespace_of, open_bundle, read_bundle
from rayllm_ctl.workflows.observe.bundle.write import write_bundle
from rayllm_ctl.workflows.services import kind_in
from tests.health.cases import NAME, NAMESPACE, case_folders, load_case


def test_masking_changes_the_health_of_no_sample() -> None:
    folders = case_folders()
    assert len(folders) > 100
    for folder in folders:
        seen = load_case(folder)
        kind = kind_in(seen, NAME, NAMESPACE)
        masked = dataclasses.replace(
            seen,
            objects=tuple(redacted(item) for item in seen.objects),
            serve={name: redacted(answer) for name, answer in seen.serve.items()},
            logs={name: redacted_text(text) for name, text in seen.logs.items()},
        )
        assert kind.diagnose(masked, NAME, NAMESPACE) == kind.diagnose(seen, NAME, NAMESPACE), folder.name


@pytest.mark.parametrize("target", ["bundle", "bundle.tar.gz", "bundle.tgz"])
def test_what_is_written_is_read_again(tmp_path: Path, target: str) -> None:
    samples = map(load_case, case_folders())
    sample = next(one for one in samples if one.serve and one.logs)
    seen = dataclasses.replace(
        sample, notes=("nodes could not be read",), unread=frozenset({"Node"}), queue={"pending": 3, "running": 1}
    )
    path = tmp_path / "new" / target
    write_bundle(path, seen, {"name": NAME, "namespace": NAMESPACE}, {"pod-1/engine.out": "for people"})
    with open_bundle(path) as folder:
        assert namespace_of(folder) == NAMESPACE
        found = read_bundle(folder)
        assert (folder / "logs" / "pod-1" / "engine.out.txt").read_text() == "for people"
    objects = tuple(redacted(item) for item in seen.objects)
    assert found == Snapshot(objects, seen.now, seen.serve, seen.logs, seen.notes, seen.unread, seen.queue)


def test_an_archive_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    write_bundle(path, load_case(case_folders()[0]), {})
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert {(one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, "", "")}
    assert {one.name.partition("/")[0] for one in members} == {"x"}


def test_what_is_no_archive_of_a_bundle_is_said(tmp_path: Path) -> None:
    text, empty = tmp_path / "text.tar.gz", tmp_path / "empty.tar.gz"
    text.write_text("no archive")
    with tarfile.open(empty, "w:gz"):
        pass
    for path, said in ((text, "is not a bundle archive"), (empty, "does not contain objects.json")):
        with pytest.raises(UsageError, match=said), open_bundle(path):
            pass


def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("b/objects.json", "../outside", f"{tmp_path}/absolute", "b/link"):
            member = tarfile.TarInfo(name)
            content = b'{"items": []}'
            member.size = len(content)
            if name == "b/link":
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
            archive.addfile(member, io.BytesIO(content))
    with open_bundle(path) as folder:
        assert [file.name for file in folder.iterdir()] == ["objects.json"]
        assert not (folder.parent.parent / "outside").exists()
    assert not (tmp_path / "absolute").exists()
