"""The code that runs in the pods as ConfigMaps: what is in them, when they change, and what Python imports."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl import __version__
from rayllm_ctl.model.spec.gateway import INGRESS_CODE, INGRESS_PATH
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.ingress import RESOURCE
from rayllm_ctl.render import servingcode
from rayllm_ctl.render.syntax import imported_modules, normal_form
from rayllm_ctl.serving import shipped
from rayllm_ctl.serving.shipped import MOUNTED, VARIABLE, ingress_code
from tests.contract.needs import closure
from tests.render.test_gateway import SERVICE, environment, pods, rendered

CLIENT_SIDE_LIMIT = 262_144
"""Bytes that all annotations of an object may have together; client-side apply puts the whole object into one."""


@pytest.fixture(autouse=True)
def serving_code() -> None:
    """The code as it is, where the other tests of this folder have something in its place."""


def config_maps(service: LLMService = SERVICE) -> dict[str, dict[str, Any]]:
    found = rendered(service)
    return {name.partition("/")[2]: item for name, item in found.items() if name.startswith("ConfigMap/")}


def archives(item: Mapping[str, Any]) -> dict[str, zipfile.ZipFile]:
    return {key: zipfile.ZipFile(io.BytesIO(base64.b64decode(data))) for key, data in item["binaryData"].items()}


def digests(monkeypatch: pytest.MonkeyPatch, changed: Mapping[str, str]) -> tuple[str, str]:
    """The digests of models and ingress with files changed."""
    texts = {**servingcode.files(), **changed}
    with monkeypatch.context() as patched:
        patched.setattr(servingcode, "files", lambda: texts)
        servingcode.models_files.cache_clear()
        servingcode.ingress_files.cache_clear()
        found = (
            servingcode.models_code("chat", transformers=False).config_map, servingcode.ingress_code("chat").digest
        )  # fmt: skip
    servingcode.models_files.cache_clear()
    servingcode.ingress_files.cache_clear()
    return found


def text_of(module: str) -> tuple[str, str]:
    name = f"rayllm_ctl/serving/{module}"
    return name, servingcode.files()[name]


def test_manifests_can_be_applied_by_the_client() -> None:
    transformers = replace(SERVICE, engine=replace(SERVICE.engine, kind="transformers"))
    for service in (SERVICE, transformers):
        for item in rendered(service).values():
            assert len(json.dumps(item)) < CLIENT_SIDE_LIMIT * 3 // 4, item["metadata"]["name"]


def test_each_config_map_has_one_zip_file_and_says_whose_it_is() -> None:
    models, ingress = sorted(config_maps().items(), reverse=True)
    assert ingress[0] == "chat-ingress-code"
    for name, item in (models, ingress):
        assert set(item) == {"apiVersion", "kind", "metadata", "binaryData"}
        notes = item["metadata"]["annotations"]
        assert notes["rayllm.io/version"] == __version__
        assert notes["rayllm.io/code-digest"][:8] in (
            name.rpartition("-")[2],
            *(key[:8] for key in item["binaryData"]),
        )
        [archive] = archives(item).values()
        assert archive.testzip() is None


def test_equal_code_is_equal_bytes() -> None:
    texts = servingcode.ingress_files()
    made = servingcode.archive(texts)
    assert made == servingcode.archive(dict(reversed(list(texts.items()))))
    for entry in zipfile.ZipFile(io.BytesIO(made)).infolist():
        assert (entry.date_time, entry.create_system, entry.external_attr >> 16) == ((1980, 1, 1, 0, 0, 0), 3, 0o644)


def test_a_comment_or_docstring_changes_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(monkeypatch, {})
    for module in ("proxy.py", "model.py", "ingress.py", "gateway/pipeline.py"):
        name, text = text_of(module)
        tree = ast.parse(text)
        docstring = ast.get_docstring(tree, clean=False)
        assert docstring
        other = "# a comment\n" + text.replace(docstring, "Another docstring.", 1) + "\n\n# and another\n"
        assert digests(monkeypatch, {name: other}) == before, module
        assert digests(monkeypatch, {name: text + "\nADDED = 1\n"}) != before, module


@pytest.mark.parametrize(
    ("module", "models", "ingress"),
    [
        ("gateway/pipeline.py", False, True),
        ("gateway/settings.py", False, True),
        ("ingress.py", False, True),
        ("proxy.py", True, False),
        ("model.py", True, False),
        ("generation/batcher.py", False, False),
        ("gateway/http/request_id.py", True, True),
    ],
)
def test_what_another_module_replaces(
    monkeypatch: pytest.MonkeyPatch, module: str, models: bool, ingress: bool
) -> None:
    name, text = text_of(module)
    before, after = digests(monkeypatch, {}), digests(monkeypatch, {name: text + "\nADDED = 1\n"})
    assert [one != other for one, other in zip(before, after, strict=True)] == [models, ingress]


def test_a_new_gateway_replaces_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    name, text = text_of("gateway/pipeline.py")
    before = rendered(SERVICE)["RayService/chat"]["spec"]
    changed = {**servingcode.files(), name: text + "\nADDED = 1\n"}
    monkeypatch.setattr(servingcode, "files", lambda: changed)
    servingcode.ingress_files.cache_clear()
    after = rendered(SERVICE)["RayService/chat"]["spec"]
    servingcode.ingress_files.cache_clear()
    assert after["rayClusterConfig"] == before["rayClusterConfig"]
    assert after["serveConfigV2"] != before["serveConfigV2"]


def test_the_parts_are_complete() -> None:
    """What the contract tests follow is in them, but for what is imported for type checkers alone."""
    inside = {name.removeprefix("rayllm_ctl/serving/") for name in servingcode.ingress_files()}
    assert closure(("ingress.py",)) - {"__init__.py"} <= inside
    models = {name.removeprefix("rayllm_ctl/serving/") for name in servingcode.models_files(True)}
    assert closure(("transformers_engine.py",)) <= models
    assert len(servingcode.models_files(False)) < 15
    assert "rayllm_ctl/serving/__init__.py" not in servingcode.ingress_files()


def test_both_sides_name_the_same_places() -> None:
    assert (VARIABLE, str(MOUNTED)) == (INGRESS_CODE, INGRESS_PATH)
    assert f'RESOURCE: Final = "{RESOURCE}"' in (servingcode.PACKAGE / "spread.py").read_text(encoding="utf-8")


def test_the_code_is_mounted_on_the_python_path_of_all_pods() -> None:
    [models] = [name for name in config_maps() if name != "chat-ingress-code"]
    for pod in pods(SERVICE).values():
        assert environment(pod)["PYTHONPATH"] == "/opt/rayllm/serving/rayllm.zip:/mine"
        volumes = {
            one["name"]: one["configMap"] for one in pod["volumes"] if one["name"] in ("serving", "ingress-code")
        }
        assert volumes == {"serving": {"name": models}, "ingress-code": {"name": "chat-ingress-code"}}
        places = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
        expected = {"serving": "/opt/rayllm/serving/rayllm.zip", "ingress-code": "/opt/rayllm/ingress"}
        assert places.items() >= expected.items()


def test_an_archive_from_which_pods_import_does_not_change_below_them() -> None:
    """The kubelet updates what is mounted as a folder, but no subPath."""
    found = config_maps()
    for pod in pods(SERVICE).values():
        mounts = {one["name"]: one for one in pod["containers"][0]["volumeMounts"]}
        [volume] = [one for one in pod["volumes"] if one["name"] == "serving"]
        [key] = found[volume["configMap"]["name"]]["binaryData"]
        assert mounts["serving"]["subPath"] == key
        assert mounts["serving"]["mountPath"] in environment(pod)["PYTHONPATH"].split(":")
        assert "subPath" not in mounts["ingress-code"]  # Processes copy that of the ingress, and wait for another one.


def mounted(folder: Path) -> tuple[Path, Path, str]:
    """The files as kubelets mount them: that of the models, the folder of the ingress, and its digest."""
    found = config_maps()
    ingress = found.pop("chat-ingress-code")
    for item in (ingress, *found.values()):
        for key, data in item["binaryData"].items():
            (folder / key).write_bytes(base64.b64decode(data))
    [key] = ingress["binaryData"]
    return folder / "rayllm.zip", folder, key.removesuffix(".zip")


def run(archive: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.path[0:0] = [{str(archive)!r}]"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{start}\n{code}"], env={**os.environ, **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_python_imports_from_the_zip_files(tmp_path: Path) -> None:
    archive, folder, digest = mounted(tmp_path)
    done = run(archive, "import rayllm_ctl.serving.proxy as p; print(p.__file__, p.middlewares.__name__)")
    assert done.stdout == f"{archive}/rayllm_ctl/serving/proxy.py middlewares\n", done.stderr
    done = run(archive, "import rayllm_ctl.serving.gateway.user_config")
    assert "No module named 'rayllm_ctl.serving.gateway.user_config'" in done.stderr
    copies = tmp_path / "copies"
    script = f"""
import importlib.util, pathlib
source = pathlib.Path({str(folder)!r}), pathlib.Path({str(copies)!r})
import rayllm_ctl.serving.shipped as shipped
import rayllm_ctl.serving as package
package.__path__[:0] = shipped.ingress_code({{shipped.VARIABLE: {digest!r}}}, *source)
(source[0] / "{digest}.zip").unlink()
import rayllm_ctl.serving.gateway.user_config as config, rayllm_ctl.serving.gateway.http.request_id as both
print(config.__file__, both.__file__, config.read_gateway({{}}).docs)
"""
    done = run(archive, script)
    inside = copies / f"{digest}.zip" / "rayllm_ctl/serving/gateway"
    assert done.stdout == f"{inside}/user_config.py {inside}/http/request_id.py False\n", done.stderr


def test_a_process_waits_for_the_code_that_it_is_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, copies, passed = tmp_path / "mounted", tmp_path / "copies", [0.0]
    folder.mkdir()

    def sleep(seconds: float) -> None:
        passed[0] += seconds
        if passed[0] >= 60:  # the kubelet looks
            (folder / "new.zip").write_bytes(b"new")

    # The module's own clock: threads of other tests go on sleeping.
    monkeypatch.setattr(shipped, "time", SimpleNamespace(monotonic=lambda: passed[0], sleep=sleep))
    (folder / "old.zip").write_bytes(b"old")
    found = ingress_code({VARIABLE: "new"}, folder, copies)
    assert found == [str(copies / "new.zip/rayllm_ctl/serving")]
    assert (copies / "new.zip").read_bytes() == b"new"
    assert passed[0] == 60
    (folder / "new.zip").unlink()
    assert ingress_code({VARIABLE: "new"}, folder, copies) == found  # of another process of the pod
    assert ingress_code({}, folder, copies) == []


def test_other_code_is_used_if_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    monkeypatch.setattr(shipped, "time", SimpleNamespace(monotonic=lambda: passed[0], sleep=sleep))
    copies = tmp_path / "copies"
    with pytest.raises(ImportError, match=r"the ConfigMap NAME-ingress-code is missing, .*; run rayllm-ctl deploy"):
        ingress_code({VARIABLE: "old"}, tmp_path, copies)
    (tmp_path / "new.zip").write_bytes(b"new")
    assert ingress_code({VARIABLE: "old"}, tmp_path, copies) == [str(copies / "new.zip/rayllm_ctl/serving")]
    assert "old.zip does not exist" in caplog.text
    assert not (copies / "old.zip").exists()
    (tmp_path / "new.zip").write_bytes(b"with other comments")
    ingress_code({VARIABLE: "old"}, tmp_path, copies)
    assert (copies / "new.zip").read_bytes() == b"new"  # from which another process imports
    assert [path.name for path in copies.iterdir()] == ["new.zip"]


def test_the_form_of_code_says_all_that_it_does() -> None:
    same = ["a = f(1, 'x')  # why\n", '\n\na = f(\n    1,\n    "x",\n)\n']
    assert normal_form(same[0]) == normal_form(same[1])
    others = [
        "a = f(1, 'y')", "a = f(1.0, 'x')", "a = f('x', 1)", "a = f(1, b'x')", "b = f(1, 'x')", "a += f(1, 'x')",
        "a = f(1, x='x')", "a = f(1, *'x')", "a = f(1)('x')", "a: int = f(1, 'x')", "a == f(1, 'x')",
    ]  # fmt: skip
    assert len({normal_form(text) for text in (same[0], *others)}) == len(others) + 1
    in_function = ['def f():\n    """One."""\n    return 1\n', 'def f():\n    "Two"\n    return 1\n']
    assert normal_form(in_function[0]) == normal_form(in_function[1])
    assert normal_form(in_function[0]) != normal_form("def f():\n    return 2\n")
    assert normal_form("def f():\n    'a'\n    'b'\n") != normal_form("def f():\n    'a'\n    'c'\n")


def test_imports_for_type_checkers_alone_are_left_out() -> None:
    text = """
from typing import TYPE_CHECKING
import p.one, other
if TYPE_CHECKING:
    from p.two import Two
def f():
    from p import three
"""
    assert list(imported_modules(text, "p")) == ["p.one", "p", "p.three"]
