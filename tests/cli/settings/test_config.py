"""`config view`, `set`, `unset` and `path`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.settings.check import values_hint
from rayllm_ctl.cli.settings.names import setting_fields
from rayllm_ctl.specfile.explain import explain

Config = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "rayllm-ctl" / "config.yaml"


@pytest.fixture
def config(file: Path, capsys: pytest.CaptureFixture[str]) -> Config:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = app.run(["config", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def rows(out: str) -> dict[str, tuple[str, str]]:
    lines = (re.split("  +", line, maxsplit=2) for line in out.splitlines()[1:])
    return {name: (value, source) for name, value, source in lines}


def test_the_path_follows_the_environment(
    config: Config, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config("path") == (0, f"{file}\n", "")
    monkeypatch.setenv("RAYLLM_CONFIG", str(tmp_path / "mine.yaml"))
    assert config("path")[1] == f"{tmp_path / 'mine.yaml'}\n"
    assert config("set", "gpu", "L4")[0] == 0
    assert (tmp_path / "mine.yaml").read_text() == "gpu: L4\n"
    monkeypatch.delenv("RAYLLM_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for base in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", base)
        assert config("path")[1] == f"{tmp_path / 'home' / '.config' / 'rayllm-ctl' / 'config.yaml'}\n"


def test_set_creates_a_file_that_only_its_owner_reads(config: Config, file: Path) -> None:
    old = os.umask(0)
    try:
        assert config("set", "gpu", "h100") == (0, "", f"{file}: gpu changed\n")
    finally:
        os.umask(old)
    assert file.read_text() == "gpu: h100\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert config("set", "gpu", "h100")[2] == f"{file}: gpu unchanged\n"
    assert [one.name for one in file.parent.iterdir()] == ["config.yaml"]


def test_comments_order_mode_and_links_stay(config: Config, file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("# The team's\nnamespace: llm  # ours\n\ntoleration:\n- a\n# of the GPUs\n- b\n\n# last\ngpu: L4\n")
    real.chmod(0o640)
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    assert config("set", "namespace", "search")[0] == 0
    assert config("set", "toleration", "c", "d=e:NoSchedule")[0] == 0
    assert config("set", "image", "registry.example/llm:1")[0] == 0
    assert real.read_text() == (
        "# The team's\nnamespace: search  # ours\n\ntoleration:\n- c\n- 'd=e:NoSchedule'\n\n# last\ngpu: L4\n"
        "image: registry.example/llm:1\n"
    )
    assert config("unset", "toleration")[0] == 0
    assert "\n\n\n# last" in real.read_text()
    assert config("unset", "toleration")[2] == f"{file}: toleration unchanged\n"
    assert (file.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o640)


def test_what_is_no_file_is_not_replaced(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    (place / "link").symlink_to("pipe")
    before = {one.name: one.lstat() for one in place.iterdir()}
    for name, kind in (("pipe", "a named pipe"), ("folder", "a directory"), ("link", "a named pipe")):
        monkeypatch.setenv("RAYLLM_CONFIG", str(place / name))
        for words in (("set", "gpu", "L4"), ("unset", "gpu")):
            code, _, err = config(*words)
            assert (code, f"{place / name}: is {kind}, not a file" in err) == (2, True)
            assert "hint: export RAYLLM_CONFIG=PATH" in err
    assert {one.name: (one.lstat().st_ino, one.lstat().st_mode) for one in place.iterdir()} == {
        name: (stat.st_ino, stat.st_mode) for name, stat in before.items()
    }


def test_a_file_in_braces_is_written_anew(config: Config, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text('{gpu: L4, "tp": 2}\n')
    assert config("set", "tp", "4")[0] == 0
    assert file.read_text() == "gpu: L4\ntp: 4\n"
    assert config("unset", "tp")[0] == 0
    assert config("unset", "gpu")[0] == 0
    assert file.read_text().strip() == ""
    assert config("view")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpus", "L4"), 'unknown setting "gpus"'),
        (("env", "A=b"), 'unknown setting "env"'),
        (("gpu", "H1OO"), 'gpu: unknown GPU "H1OO"'),
        (("gpu", "L4", "L40S"), "gpu takes one value, not 2"),
        (("tp", "two"), 'tp: "two" is not a whole number'),
        (("tp", "0"), "tp: must be at least 1, not 0"),
        (("dtype", "bf16"), 'dtype: "bf16" is not supported'),
        (("namespace", "a b"), 'namespace: "a b" is not a valid namespace'),
        (("image", "a b"), "image: not a valid image reference"),
        (("node-selector", "a"), "node-selector: expected KEY=VALUE"),
        (("request-timeout", "5"), 'request-timeout: "5" is not a valid duration'),
        (("hf-token-secret", "hf_secret"), "hf-token-secret: expected NAME/KEY"),
        (("kuberay-version", "new"), "kuberay-version: "),
        (("replicas", "0"), "replicas: must be at least 1"),
    ],
)
def test_set_rejects_what_no_command_would_take(
    arguments: tuple[str, ...], message: str, config: Config, file: Path
) -> None:
    code, out, err = config("set", *arguments)
    assert (code, out, file.exists()) == (2, "", False)
    assert err.startswith(f"✗ {message}")
    assert "\nhint: " in err
    assert "hf_secret" not in err


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("replicas", "3"), ("min-replicas", "2"), "{file}:1: replicas cannot be combined with min-replicas"),
        (("max-replicas", "3"), ("replicas", "2"), "replicas cannot be combined with {file}:1: max-replicas"),
        (("max-replicas", "2"), ("min-replicas", "3"), "min-replicas: 3 is greater than {file}:1: max-replicas (2)"),
        (("accelerator", "cpu"), ("gpu", "L4"), "gpu: does not apply to CPU services"),
        (("gpu", "L4"), ("accelerator", "cpu"), "{file}:1: gpu: does not apply to CPU services"),
        (("vllm-version", "0.12"), ("engine", "transformers"), "{file}:1: vllm-version: does not apply to engine kind"),
        (
            ("gpu", "H100-80GB"),
            ("node-selector", "nvidia.com/gpu.product=NVIDIA-A10"),
            "nodes with the label nvidia.com/gpu.product=NVIDIA-A10 have A10, not H100-80GB",
        ),
        (
            ("vllm-version", "0.19.0"),
            ("image", "rayproject/ray-llm:2.60.0-py312-cu130"),
            "image rayproject/ray-llm:2.60.0-py312-cu130 contains vLLM 0.29.0, not vLLM 0.19.0",
        ),
    ],
)
def test_set_rejects_what_contradicts_the_file(
    first: tuple[str, ...], second: tuple[str, ...], message: str, config: Config, file: Path
) -> None:
    assert config("set", *first)[0] == 0
    assert config("set", "namespace", "llm")[0] == 0
    before = file.read_text()
    code, _, err = config("set", *second)
    assert (code, file.read_text()) == (2, before)
    assert err.startswith(f"✗ {message.format(file=file)}")
    assert err.endswith(f"\nhint: rayllm-ctl config unset {first[0]}\n")
    assert config("unset", first[0])[0] == 0
    assert config("set", *second)[0] == 0


def test_cached_tokens_are_checked_with_the_input_tokens_of_the_file(config: Config) -> None:
    assert config("set", "cached-tokens", "100")[2].startswith("✗ cached-tokens: requires spec.load.inputTokens")
    assert config("set", "input-tokens", "1000")[0] == 0
    assert config("set", "cached-tokens", "1000")[2].startswith("✗ cached-tokens: must be less than")
    assert config("set", "cached-tokens", "100")[0] == 0
    assert config("view")[0] == 0


@pytest.mark.parametrize("name", ["prices", "kubeconfig", "template-dir"])
def test_standard_input_is_not_a_default(name: str, config: Config, file: Path) -> None:
    assert config("set", name, "-") == (
        2,
        "",
        f"✗ {name}: standard input cannot be a default of all commands\n\nhint: rayllm-ctl config set {name} FILE\n",
    )
    assert not file.exists()


def test_a_file_that_contradicts_itself_can_be_changed(
    config: Config, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("replicas: 3\nmin-replicas: 2\n")
    assert app.run(["plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"✗ {file}:1: replicas cannot be combined with {file}:2: min-replicas\n")
    assert "hint: --replicas 3\n      --min-replicas 2 --max-replicas 3\n" in err
    assert config("set", "gpu", "L4")[0] == 0
    assert config("set", "replicas", "4")[0] == 0
    assert config("unset", "min-replicas")[0] == 0


def test_hints_about_values_name_fields_that_exist() -> None:
    commands = [values_hint(name) for name in setting_fields()]
    fields = [one.removeprefix("rayllm-ctl explain ") for one in commands if one != "rayllm-ctl config set --help"]
    assert len(fields) > 20
    for field in fields:
        assert explain(field).path == field


def test_what_set_writes_is_what_commands_read(config: Config, file: Path, tmp_path: Path) -> None:
    given = {
        "offline": ("yes",), "vllm-version": ("0.10",), "gpu-memory-utilization": ("0.8",), "min-replicas": ("2",),
        "node-selector": ("team=search", "size=8"), "ttft": ("500ms",), "gateway": ("true",), "memory": ("64Gi",),
        "max-model-len": ("auto",), "volume": ("pvc:models:/models",), "kuberay-version": ("1.6",),
        "from-hub": ("true",),
    }  # fmt: skip
    for name, values in given.items():
        assert config("set", name, *values)[0] == 0
    code, out, err = config("view")
    assert code == 0, err
    found = rows(out)
    assert {name: found[name][1].split()[0] for name in given} == dict.fromkeys(given, "file")
    assert found["vllm-version"][0] == "0.10"


def test_paths_are_those_of_where_they_were_typed(
    config: Config, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config("set", "prices", "prices.yaml")[0] == 0
    assert file.read_text() == f"prices: {tmp_path / 'prices.yaml'}\n"


def test_view_shows_each_value_with_its_source(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("# Ours\ngpu: L4\nimage: registry.example/llm:1\n")
    monkeypatch.setenv("RAYLLM_GPU", "L40S")
    code, out, _ = config("view", "--", "-n", "llm")
    found = rows(out)
    assert code == 0
    assert found["namespace"] == ("llm", "flag --namespace")
    assert found["gpu"] == ("L40S", "variable RAYLLM_GPU")
    assert found["image"] == ("registry.example/llm:1", f"file {file}:3")
    assert found["request-timeout"] == ("30s", "default")
    assert found["tp"] == ("-", "default")
    code, out, _ = config("view", "-o", "json")
    document = json.loads(out)
    assert document["file"] == str(file)
    settings = {one["name"]: one for one in document["settings"]}
    assert settings["image"] == {
        "name": "image", "value": "registry.example/llm:1", "source": "file", "place": f"{file}:3",
    }  # fmt: skip
    assert settings["tp"] == {"name": "tp", "value": None, "source": "default", "place": None}


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--foo",), "unknown flag: --foo\n\nhint: rayllm-ctl config view    # lists all settings\n"),
        (("--namespac", "a"), "unknown flag: --namespac\n\nhint: did you mean --namespace?\n"),
        (("--tp", "x"), 'invalid value for --tp: "x" is not a whole number\n\nhint: rayllm-ctl config view --help\n'),
        (("--namespace",), "--namespace requires a value\n\nhint: rayllm-ctl config view --help\n"),
    ],
)
def test_view_reports_flags_that_no_setting_has(config: Config, flags: tuple[str, ...], error: str) -> None:
    code, out, err = config("view", "--", *flags)
    assert (code, out) == (2, "")
    assert err.startswith(f"✗ {error}")


def test_view_reports_values_that_no_spec_may_have(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("tp: 0\n")
    assert config("view")[2].startswith(f"✗ {file}:1: tp: must be at least 1, not 0\n")
    monkeypatch.setenv("RAYLLM_TP", "-1")
    assert config("view")[2].startswith("✗ RAYLLM_TP: must be at least 1, not -1\n")


def test_a_broken_file_can_be_looked_for_and_is_not_overwritten(config: Config, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("gpu L4\n")
    assert config("path") == (0, f"{file}\n", "")
    code, _, err = config("set", "gpu", "L4")
    assert (code, err.startswith(f"✗ {file}:1: expected settings")) == (2, True)
    assert file.read_text() == "gpu L4\n"


def test_a_folder_that_cannot_be_written_is_an_error(config: Config, file: Path) -> None:
    file.parent.parent.write_text("a file where the folder should be")
    code, _, err = config("set", "gpu", "L4")
    assert (code, "cannot be " in err, "\nhint: ls -l" in err) == (1, True, True)
