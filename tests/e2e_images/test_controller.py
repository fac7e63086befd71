"""The image of the controller: as the recipe has it, and made anew for another code alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from e2e.images import controller, packages
from rayllm_ctl.cli import app


def test_it_starts_as_the_image_of_the_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["image", "recipe", "--controller"]) == 0
    recipe = capsys.readouterr().out.splitlines()
    assert f"USER {controller.USER}" in recipe
    assert f"ENTRYPOINT {json.dumps(controller.ENTRYPOINT)}" in recipe
    assert f"CMD {json.dumps(controller.COMMAND)}" in recipe
    [environment] = [line for line in recipe if line.startswith("ENV ")]
    assert {f"{name}={value}" for name, value in controller.ENV.items()} < set(environment.split())


def test_a_change_of_the_code_leaves_the_dependencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [controller.image_key(), controller.base_key()]
    (tmp_path / "rayllm_ctl").mkdir()
    (tmp_path / "rayllm_ctl" / "new.py").touch()
    monkeypatch.setattr(controller, "CODE", tmp_path / "rayllm_ctl")
    assert controller.image_key() != keys[0]
    assert controller.base_key() == keys[1]


def test_another_release_is_another_image() -> None:
    assert len({controller.image_key(), controller.image_key("0.2.0"), controller.image_key("0.3.0")}) == 3


def test_the_root_file_system_has_no_package_of_the_serving_image(tmp_path: Path) -> None:
    site = tmp_path / "base" / packages.SITE_PACKAGES
    (site / "torch").mkdir(parents=True)
    library = site.parent / "abc.py"
    library.write_text("")
    root = tmp_path / "root"
    controller.link_without_packages(tmp_path / "base", root)
    assert [path.name for path in (root / packages.SITE_PACKAGES).parent.iterdir()] == ["abc.py"]


def test_only_the_newest_images_stay(tmp_path: Path) -> None:
    entries = tmp_path / "controller-image"
    for number in range(5):
        (entries / f"e{number}").mkdir(parents=True)
        (entries / f".e{number}.lock").touch()
        stamp = 1_700_000_000 + number
        os.utime(entries / f"e{number}", (stamp, stamp))
    controller.remove_older(entries)
    assert sorted(path.name for path in entries.iterdir() if path.is_dir()) == ["e2", "e3", "e4"]
