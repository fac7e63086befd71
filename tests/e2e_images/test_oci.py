"""OCI archives: what containerd reads from them, and bytes that depend on content alone."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.images.oci import Layer, manifest_digest, write_archive

REF = "rayllm.local/thing:1.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o755)
    (root / "bin" / "alias").symlink_to("tool")
    os.link(root / "bin" / "tool", root / "bin" / "twin")
    (root / "empty").mkdir()
    return root


def blob(archive: Path, digest: str) -> bytes:
    with tarfile.open(archive) as tar:
        member = tar.extractfile("blobs/" + digest.replace(":", "/"))
        assert member is not None
        return member.read()


def read(archive: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        assert member is not None
        index = json.load(member)
    manifest = json.loads(blob(archive, index["manifests"][0]["digest"]))
    return index, manifest, json.loads(blob(archive, manifest["config"]["digest"]))


def layer_members(archive: Path, number: int = 0) -> dict[str, tarfile.TarInfo]:
    _, manifest, _ = read(archive)
    with tarfile.open(fileobj=io.BytesIO(blob(archive, manifest["layers"][number]["digest"]))) as tar:
        return {member.name: member for member in tar}


def test_every_blob_has_the_digest_and_size_that_names_it(tree: Path, tmp_path: Path) -> None:
    image = write_archive(REF, tmp_path / "image.tar", [Layer(tree), Layer(tree, "/opt/thing")])
    index, manifest, config = read(image.archive)
    descriptors = [index["manifests"][0], manifest["config"], *manifest["layers"]]
    assert len(descriptors) == 4
    for descriptor in descriptors:
        data = blob(image.archive, descriptor["digest"])
        assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
        assert len(data) == descriptor["size"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]


def test_containerd_finds_the_reference_and_the_run_settings(tree: Path, tmp_path: Path) -> None:
    image = write_archive(
        REF, tmp_path / "image.tar", [Layer(tree)], cmd=["/bin/tool"], env={"MODE": "cpu"}, user="1000", workdir="/opt"
    )
    index, _, config = read(image.archive)
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == REF
    settings = config["config"]
    assert settings["Cmd"] == ["/bin/tool"]
    assert settings["User"] == "1000"
    assert settings["WorkingDir"] == "/opt"
    assert "MODE=cpu" in settings["Env"]
    assert any(entry.startswith("PATH=/usr/local") for entry in settings["Env"])
    assert "Entrypoint" not in settings


def test_layer_keeps_modes_links_and_empty_directories(tree: Path, tmp_path: Path) -> None:
    members = layer_members(write_archive(REF, tmp_path / "image.tar", [Layer(tree)]).archive)
    assert members["bin/tool"].mode == 0o755
    assert members["bin/alias"].linkname == "tool"
    assert members["bin/twin"].islnk()
    assert members["bin/twin"].linkname == "bin/tool"
    assert members["empty"].isdir()


def test_prefix_places_the_layer_below_its_parents_and_gives_it_to_root(tree: Path, tmp_path: Path) -> None:
    os.chown(tree / "bin" / "alias", os.getuid(), os.getgid(), follow_symlinks=False)
    members = layer_members(write_archive(REF, tmp_path / "image.tar", [Layer(tree, "/usr/local/x")]).archive)
    assert list(members)[:3] == ["usr", "usr/local", "usr/local/x"]
    assert "usr/local/x/bin/tool" in members
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}


def test_bytes_depend_on_content_alone(tree: Path, tmp_path: Path) -> None:
    first = write_archive(REF, tmp_path / "a.tar", [Layer(tree)]).archive
    before = manifest_digest(first)
    os.utime(tree / "bin" / "tool", (1_000_000_000, 1_000_000_000))
    (tree / "zz").touch()
    (tree / "zz").unlink()
    second = write_archive(REF, tmp_path / "b.tar", [Layer(tree)]).archive
    assert first.read_bytes() == second.read_bytes()
    (tree / "bin" / "tool").write_text("#!/bin/bash\n")
    assert manifest_digest(write_archive(REF, tmp_path / "c.tar", [Layer(tree)]).archive) != before


@pytest.mark.parametrize("ref", ["ray:2.60.0", "rayllm.local/ray", "library/ray:1"])
def test_reference_must_be_fully_qualified(ref: str, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="registry/name:tag"):
        write_archive(ref, tmp_path / "image.tar", [Layer(tree)])


def test_missing_layer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_archive(REF, tmp_path / "image.tar", [Layer(tmp_path / "nowhere")])
