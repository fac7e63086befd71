"""`plan` as a user runs it: what it prints, its exit codes, and what it does not import."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from tests.conftest import Golden

HEAVY = {"kubernetes", "pydantic", "jinja2", "rich", "yaml", "huggingface_hub", "jsonschema_rs"}

CASES = {
    "fits": ["--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "4"],
    "search": ["--model", "Qwen/Qwen3-32B"],
    "wide": ["--model", "openai/gpt-oss-120b", "--gpu", "H100-80GB", "-o", "wide"],
    "does-not-fit": ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "L4", "--tp", "8"],
    "invalid-tp": ["--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "3"],
    "invalid-several": [
        "--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--max-model-len", "131072",
        "--engine-arg", "enable_lorra=true",
    ],
    "across-nodes": ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "H100-80GB", "--tp", "16"],
    "load": [
        "--model", "Qwen/Qwen3-32B", "--concurrency", "200", "--ttft", "2s", "--tpot", "50ms",
        "--objective", "latency",
    ],
    "lengths": [
        "--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--rate", "4",
        "--input-tokens", "lognormal:1500:0.9", "--output-tokens", "lognormal:300:1:4000",
    ],
    "data-parallel": [
        "--model", "Qwen/Qwen3-235B-A22B", "--gpu", "H200-141GB", "--tp", "1", "--engine-arg", "data_parallel_size=8",
        "--engine-arg", "enable_expert_parallel=true",
    ],
    "transformers": ["--model", "Qwen/Qwen3-8B", "--engine", "transformers", "--gpu", "RTX-2080-Ti"],
    "cpu-unseen": ["--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu"],
}  # fmt: skip
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
EXIT_CODES = {"does-not-fit": 1, "invalid-tp": 1, "invalid-several": 1, "across-nodes": 1}


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = app.run(["plan", "--offline", *args])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed(name: str, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    code, out, err = run(capsys, *CASES[name])
    assert code == EXIT_CODES.get(name, 0)
    assert err == ""
    assert name == "wide" or max(map(len, out.splitlines())) <= 102
    golden.check(f"plan-{name}.txt", out)


def test_json_is_one_document_with_the_published_fields(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    code, out, err = run(capsys, *CASES["fits"], "-o", "json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["verdict"] == "fits"
    assert data["parallelism"]["gpusPerReplica"] == 4
    assert isinstance(data["memory"]["kvCacheBytes"]["typical"], int)
    golden.check("plan-fits.json", out)


@pytest.mark.parametrize("name", ["fits", "search", "does-not-fit", "transformers"])
def test_labels_are_dimmed_and_nothing_moves(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = run(capsys, *CASES[name])[1]
    colored = run(capsys, "--color", "always", *CASES[name])[1]
    assert re.sub(r"\x1b\[\d*m", "", colored) == plain
    labels = [line[2:13] for line in plain.splitlines() if re.match(r"  \w", line)]
    assert len(labels) > 1
    assert re.findall(r"^  \x1b\[2m(.{11})\x1b\[0m\S", colored, re.MULTILINE) == labels


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("deepseek-ai/DeepSeek-R1", "fp8 in blocks of 128x128"),
        ("Qwen/Qwen3-32B-AWQ", "AWQ 4 bit, groups of 128"),
        ("Qwen/Qwen3-8B", None),
    ],
)
def test_how_a_checkpoint_stores_weights(model: str, weights: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    place = (model, "--gpu", "H200-141GB", "--tp", "8")
    line = next(line for line in run(capsys, *place)[1].splitlines() if line.startswith("  engine"))
    assert "".join(part for part in line.split(" · ") if "weights" in part) == (f"weights {weights}" if weights else "")
    assert json.loads(run(capsys, *place, "-o", "json")[1])["engine"].get("weights") == weights


def test_yaml_says_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    _, as_json, _ = run(capsys, *CASES["does-not-fit"], "-o", "json")
    _, as_yaml, _ = run(capsys, *CASES["does-not-fit"], "-o", "yaml")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_explain_has_every_candidate_and_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--explain")
    assert code == 0
    assert "candidates (" in out
    assert "does-not-fit 1 × T4" in " ".join(out.split())
    assert "  formulas" in out


def test_a_config_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = dict(CONFIG)
    (tmp_path / "config.json").write_text(json.dumps(config))
    code, out, _ = run(capsys, "--model", "my/model", "--model-config", str(tmp_path), "--gpu", "L4", "-o", "json")
    assert code == 0
    assert json.loads(out)["engine"]["maxModelLen"] == 8192
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    code, out, err = run(capsys, "--model", "my/model", "--model-config", str(tmp_path), "--gpu", "L4")
    assert code != 0
    assert "architectures" in err
    assert out == ""


@pytest.mark.parametrize("given", ["", "config.json", "../other config.json"])
def test_a_config_without_a_name_is_called_after_its_place(
    given: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "My Llama"
    folder.mkdir()
    for path in (folder / "config.json", tmp_path / "other config.json"):
        path.write_text(json.dumps(CONFIG))
    code, out, err = run(capsys, "--model-config", str(folder / given), "--gpu", "L4", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["model"] == ("other-config" if "other" in given else "my-llama")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--gpu", "H100"], "a model is required"),
        (["--model", "Qwen/Qwen3-32B", "--gpu", "H1000"], 'unknown GPU "H1000"'),
        (["--model", "Qwen/Qwen3-32B", "--tp", "0"], "--tp"),
        (["--model", "Qwen/Qwen3-32B", "--ttft", "fast"], '--ttft: "fast" is not a valid duration'),
        (["--model", "Qwen/Qwen3-32B", "--vllm-version", "banana"], '--vllm-version: "banana" is not a valid version'),
        (["--model", "Qwen/Qwen3-32B", "--objective", "beauty"], '--objective: "beauty" is not one of'),
    ],
)
def test_usage_errors(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert words in err


def test_explained_candidates_are_no_wider_than_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--model", "Qwen/Qwen3-32B", "--explain")
    candidates = out.partition("  candidates (")[2].partition("  formulas")[0].splitlines()
    assert max(map(len, candidates)) <= 100
    assert "USD/h" not in "".join(candidates)


def test_alternatives_name_their_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--model", "Qwen/Qwen3-32B", "--concurrency", "200", "--ttft", "1s", "--tpot", "40ms")
    assert re.search(r"--gpu B300 --tp 1 +fits, 4 replicas, 18 requests of 40,960 tokens, 50\.40 USD/h", out)


def test_what_is_too_small_differs_from_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--model", "deepseek-ai/DeepSeek-R1", "--max-model-len", "131072",
                    "--gpu", "A10G", "--tp", "8", "--pp", "6")  # fmt: skip
    needed, least = re.findall(r"needs (\S+) GiB of KV cache;.* only (\S+) GiB", " ".join(out.split()))[0]
    assert float(least) < float(needed)


def test_large_figures_have_separators(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--model", "Qwen/Qwen3-32B", "--gpu", "L4", "--replicas", "100000")
    assert "100,000 replicas" in out
    assert re.search(r"cost +\d{3},\d{3}\.\d\d \(\d{3},\d{3}\.\d\d–\d{3},\d{3}\.\d\d\) USD/h", out)


@pytest.mark.parametrize("command", ["plan", "render", "init"])
def test_the_hint_for_a_wrong_flag_names_the_command_that_ran(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([command, "--model", "Qwen/Qwen3-8B", "--tp", "0"]) == 2
    assert f"hint: rayllm-ctl {command} --help" in capsys.readouterr().err


def test_prices_of_ones_own_change_the_choice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices: {RTX-4090: 0.01}\n")
    code, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--prices", str(prices), "-o", "json")
    assert code == 0
    assert json.loads(out)["gpu"]["name"] == "RTX-4090"


def test_fixed_replicas_are_not_changed_for_the_load(capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "2", "--concurrency", "2000"]
    code, out, _ = run(capsys, *load, "-o", "json")
    assert code == 0
    assert json.loads(out)["parallelism"]["replicas"] > 1
    code, out, _ = run(capsys, *load, "--replicas", "1", "-o", "json")
    assert code == 1
    assert json.loads(out)["reasons"][0]["code"] == "too-few-replicas"


def test_a_long_key_of_an_engine_argument_can_be_parsed_again(capsys: pytest.CaptureFixture[str]) -> None:
    key = "k" * 1100
    argument = f'hf_overrides={{"{key}": {{"{key}": 1}}}}'
    assert app.run(["render", *CASES["fits"], "--offline", "--engine-arg", argument]) == 0
    text = capsys.readouterr().out
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        config = yaml.load(yaml.load(text, Loader=loader)["spec"]["serveConfigV2"], Loader=loader)
        kwargs = config["applications"][0]["args"]["llm_configs"][0]["engine_kwargs"]
        assert kwargs["hf_overrides"] == {key: {key: 1}}


@pytest.mark.parametrize("value", ["seed=abc", "max_logprobs=on", "cpu_offload_gb=x", "seed=017", "seed=.nan"])
def test_an_engine_argument_of_the_wrong_type_is_not_rendered(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["render", *CASES["fits"], "--offline", "--engine-arg", value]) in (1, 2)
    out, error = capsys.readouterr()
    assert out == ""
    assert value.partition("=")[0] in error


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"bits": 5}, "vLLM 0.29.0 supports GPTQ weights of 4 or 8 bits, and those of "),
        ({"group_size": 100}, " are not divisible by group_size 100"),
        ({}, ""),
        ({"group_size": -1, "bits": 8}, ""),
    ],
)
def test_gptq_weights_that_no_kernel_takes(
    figures: dict[str, int], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quantized = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False, **figures}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, "quantization_config": quantized}))
    code = app.run(
        ["plan", "--model-config", str(file), "--model", "a/b", "--gpu", "H100-80GB", "--tp", "1", "--offline"]
    )
    out = capsys.readouterr().out
    assert code == (1 if said else 0)
    assert said in out.replace("\n", " ")


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "quark"}, 8),
        ({"quant_method": "torchao"}, 8),
        ({"quant_method": "gptq", "group_size": 128}, 4),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0),
        ({"quant_method": "torchao", "quant_type": {"default": "int4"}}, 0),
    ],
)
def test_a_size_that_the_config_does_not_state_is_said_to_be_assumed(
    config: dict[str, object], bits: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, "quantization_config": config}))
    flags = ("--model-config", str(file), "--model", "a/b", "--gpu", "H100-80GB")
    code, out, _ = run(capsys, *flags, "-o", "json")
    assert code == 0
    notes = [note for note in json.loads(out)["notes"] if "assumed" in note]
    method = config["quant_method"]
    said = f"config.json does not state how {method} weights are stored: {bits} bits are assumed"
    assert notes == ([said] if bits else [])


def test_a_plan_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; from rayllm_ctl.cli.app import run; code = run(sys.argv[1:]); "
        "print(json.dumps([code, sorted({m.split('.')[0] for m in sys.modules})]), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "plan", "--offline", *CASES["fits"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    exit_code, names = json.loads(done.stderr.splitlines()[-1])
    assert exit_code == 0
    assert set(names) & HEAVY == set()


def test_the_summary_that_deploy_shows() -> None:
    from rayllm_ctl.console.plan.plan import summary
    from rayllm_ctl.model.spec.service import Accelerator, LLMService, Model, Parallelism
    from rayllm_ctl.workflows.plan.model import make_plan

    service = LLMService("q", Model("Qwen/Qwen3-32B"), accelerator=Accelerator(gpu="H100"), parallelism=Parallelism(4))
    lines = summary(make_plan(service, OFFLINE))
    assert lines[0] == "Qwen/Qwen3-32B  bfloat16 on 4 × H100-80GB"
    assert lines[1].startswith("context 40,960 tokens · ")
    assert lines[2].startswith("per GPU 79.2 GiB: weights 15.4 · ")
    assert lines[3].startswith("ready in about 4 min")
    quantized = LLMService("r1", Model("deepseek-ai/DeepSeek-R1"), accelerator=Accelerator(gpu="H200"))
    first = summary(make_plan(quantized, OFFLINE))[0]
    assert first == "deepseek-ai/DeepSeek-R1  bfloat16, weights fp8 in blocks of 128x128 on 8 × H200-141GB"


def test_a_risky_plan_is_rendered_only_if_the_risk_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    risky = ["render", "--model", "Qwen/Qwen3-32B", "--gpu", "A100-80GB", "--tp", "1", "--max-model-len", "40960",
             "--offline"]  # fmt: skip
    assert app.run(risky) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "may be only" in refused.err
    assert refused.err.endswith("--accept-risk    # proceeds anyway\n")
    assert app.run([*risky, "--accept-risk"]) == 0
    assert "kind: RayService" in capsys.readouterr().out


RANKS = ["--model", "Qwen/Qwen3-30B-A3B", "--gpu", "H100-80GB", "--tp", "1", "--offline",
         "--engine-arg", "data_parallel_size=4"]  # fmt: skip


@pytest.mark.parametrize("command", [["render"], ["render", "--kind", "raycluster"], ["init", "-o", "-"]])
def test_data_parallelism_is_planned_and_not_rendered(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", *RANKS]) == 0
    assert "DP 4 × TP 1" in capsys.readouterr().out
    assert app.run([*command, *RANKS]) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "data_parallel_size needs replicas that start together" in refused.err
    assert "hint: --tp N instead of data_parallel_size" in refused.err


def test_one_rank_is_no_data_parallelism(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["render", *RANKS[:-1], "data_parallel_size=1"]) == 0
    assert '"data_parallel_size": 1' in capsys.readouterr().out


def test_data_parallelism_on_cpus_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "--model", "Qwen/Qwen3-0.6B", "--accelerator", "cpu", "--engine-arg", "data_parallel_size=2"
    )
    assert code == 1
    assert "data parallelism is not planned on CPUs" in out


def test_lengths_of_a_file_and_of_flags_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spec.yaml"
    lengths = {"inputTokens": "lognormal:1500:0.9", "outputTokens": "uniform:100:900"}
    spec = {"model": {"id": "Qwen/Qwen3-8B"}, "accelerator": {"gpu": "L4"}, "load": lengths}
    head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "qwen"}}
    file.write_text(json.dumps({**head, "spec": spec}))
    _, of_file, _ = run(capsys, "-f", str(file), "-o", "json")
    flags = ["--input-tokens", lengths["inputTokens"], "--output-tokens", lengths["outputTokens"]]
    _, of_flags, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "L4", *flags, "-o", "json")
    speeds = [json.loads(text)["throughput"] for text in (of_file, of_flags)]
    assert speeds[0] == speeds[1]
    assert speeds[0]["longPrompt"]["inputTokens"] > 2 * speeds[0]["load"]["inputTokens"]


def test_prompts_beyond_the_context_are_a_risk(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--gpu", "H100-80GB", "--max-model-len", "4096", "--input-tokens", "uniform:100:5000"]
    code, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", *flags)
    assert code == 0
    assert "of prompts exceed the context of 4,096 tokens, and vLLM rejects them" in out


NGRAM = '--engine-arg=speculative_config={"method": "ngram", "num_speculative_tokens": 3}'


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--cached-tokens", "100"], "--cached-tokens: requires spec.load.inputTokens (--input-tokens)"),
        (["--cached-tokens", "100", "--input-tokens", "100"], "must be less than --input-tokens (100)"),
        (["--cached-tokens", "100", "--input-tokens", "uniform:50:90"], "must be less than --input-tokens (70)"),
        (["--input-tokens", "normal:500:100"], "expected N, uniform:MIN:MAX or lognormal:MEDIAN:SIGMA[:MAX]"),
        (["--output-tokens", "uniform:9:5"], "expected N, uniform:MIN:MAX or lognormal:MEDIAN:SIGMA[:MAX]"),
        (
            ["--cached-tokens", "9", "--input-tokens", "100", "--engine-arg", "enable_prefix_caching=false"],
            "has no effect: enable_prefix_caching is false",
        ),
        (["--accepted-tokens", "2"], "has no effect without speculative_config"),
        (["--accepted-tokens", "0.5", NGRAM], "must be from 1 to 1000, not 0.5"),
    ],
)
def test_a_load_that_has_no_effect_is_rejected(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--model", "Qwen/Qwen3-8B", *flags)
    assert code == 2
    assert says in err


def test_a_step_adds_at_most_one_token_more_than_it_guesses(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "L4", NGRAM, "--accepted-tokens", "5")
    assert code != 0
    assert "a step with 3 guessed tokens adds at most 4, not 5" in out
    assert "--accepted-tokens 4" in out


def test_speculative_decoding_needs_a_measured_figure(capsys: pytest.CaptureFixture[str]) -> None:
    _, without, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "L4", NGRAM)
    _, with_it, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "L4", NGRAM, "--accepted-tokens", "2")
    assert "speed is computed without speculative decoding" in without
    assert "without speculative decoding" not in with_it

    def alone(text: str) -> float:
        (line,) = re.findall(r"^ +1 +(\d+) ", text, re.MULTILINE)
        return float(line)

    assert alone(with_it) > 1.6 * alone(without)


@pytest.mark.parametrize("config", ["null", "{}", '{"method": "ngram"}', '{"method": "mtp"}'])
def test_accepted_tokens_need_tokens_that_are_guessed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--engine-arg", f"speculative_config={config}", "--accepted-tokens", "2")
    code, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "L4", *flags, "-o", "json")
    assert code != 0
    found = json.loads(out)
    assert found["verdict"] == "invalid"
    assert "accepted-tokens-without-guesses" in [reason["code"] for reason in found["reasons"]]


def test_a_rate_and_a_concurrency_are_both_planned_for(capsys: pytest.CaptureFixture[str]) -> None:
    def load(*flags: str) -> float:
        _, out, _ = run(capsys, "--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--tp", "1", *flags, "-o", "json")
        return float(json.loads(out)["throughput"]["load"]["concurrency"])

    assert load("--rate", "50", "--concurrency", "1") == load("--rate", "50")
    assert load("--rate", "1", "--concurrency", "40") == 40
