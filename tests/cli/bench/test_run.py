"""`bench` as a user meets it, against a server with known behaviour."""

from __future__ import annotations

import io
import json
import re
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from socket import gaierror
from urllib.error import HTTPError, URLError

import pytest

from rayllm_ctl import __version__
from rayllm_ctl.cli import app
from rayllm_ctl.console.bench.plots import plots
from rayllm_ctl.console.drawing import line_styles
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.bench.service import LoadLook, during
from rayllm_ctl.workflows.bench import run as workflow
from rayllm_ctl.workflows.bench.flags import Flags
from tests.cli.conftest import Run
from tests.loadtest.server import KnownServer, behaviour


@pytest.fixture(scope="module")
def server() -> Iterator[KnownServer]:
    with KnownServer() as running:
        yield running


def test_one_load_in_full(run: Run, server: KnownServer) -> None:
    result = run("bench", "--url", server.url, "--model", behaviour(), "--requests", "6", "--concurrency", "2")
    assert result.code == 0, str(result)
    assert "2 in flight" in result.out
    assert "6 answered in" in result.out
    assert "as the server counts" in result.out
    assert "256 tokens, answers of 128 tokens, seed 0" in result.out
    assert f"UTC, rayllm-ctl {__version__}, vLLM unknown, Ray unknown" in result.out
    for label in ("TTFT", "TPOT", "ITL", "end to end", "■"):
        assert label in result.out


def test_several_loads_are_a_table_and_failures_are_named(run: Run, server: KnownServer) -> None:
    loads = ("--requests", "3", "--concurrency", "1,2")
    result = run("bench", "run", "--url", server.url, "--model", behaviour(status=429), *loads)
    assert result.code == 1
    assert result.out.count("in flight") == 4
    assert '✗ 2 in flight: 3 × http_429: {"error": {"message": "no"}}' in result.out


def test_a_missing_or_wrong_key_leads_to_the_flags_for_one(
    run: Run, server: KnownServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ("bench", "--url", server.url, "--model", behaviour(status=401), "--requests", "2", "--concurrency", "1")
    monkeypatch.delenv("RAYLLM_API_KEY", raising=False)
    result = run(*load)
    assert result.code == 1
    assert result.err.endswith("\nhint: --api-key-file FILE    # or RAYLLM_API_KEY\n")
    assert "2 × http_401" in result.out
    assert "TTFT" not in result.out, "a table without a figure"
    (tmp_path / "key").write_text("sk-1\n")
    wrong = run(*load, "--api-key-file", str(tmp_path / "key"))
    assert f"hint: the server rejected a key of --api-key-file {tmp_path / 'key'}: use one that it accepts" in wrong.err
    assert "hint" not in run(*load[:-6], "--model", behaviour(status=429), "--requests", "1").err


def test_without_a_terminal_each_load_leaves_a_line(run: Run, server: KnownServer) -> None:
    result = run("bench", "--url", server.url, "--model", behaviour(), "--requests", "3", "--concurrency", "1,2")
    assert [line.partition(" in ")[0] for line in result.err.splitlines()] == [
        "hh:mm:ss bench       load 1 of 2 (1",
        "hh:mm:ss bench       load 2 of 2 (2",
    ]
    assert all(": 3 requests in " in line for line in result.err.splitlines())


def test_json_has_the_documented_form(run: Run, server: KnownServer, tmp_path: Path) -> None:
    args = ("bench", "--url", server.url, "--model", behaviour(), "--requests", "4", "-o", "json")
    result = run(*args, "--slo", "ttft=5s,share=0.5", "--rate", "50", "--arrivals", "constant")
    [found] = json.loads(result.out)["runs"]
    assert found["requests"] == {"total": 4, "succeeded": 4, "failed": 0, "unfinished": 0}
    assert {"requestsPerSecond", "inputTokensPerSecond", "outputTokensPerSecond"} == set(found["throughput"])
    assert set(found["latencySeconds"]) == {"ttft", "tpot", "itl", "e2e"}
    assert set(found["latencySeconds"]["e2e"]) == {"mean", "p50", "p90", "p95", "p99", "max"}
    assert (found["errors"], found["goodput"]["met"], found["load"]["rate"]) == ({}, True, 50.0)
    assert found["prompts"] == {
        "input": {"kind": "fixed", "low": 256}, "output": {"kind": "fixed", "low": 128}, "prefix": 0, "prefixes": 1,
        "seed": 0, "tokenizer": None,
    }  # fmt: skip
    assert found["request"] == {"api": "chat", "stream": True, "fields": {}}
    assert found["versions"] == {"rayllm-ctl": __version__, "vllm": None, "ray": None}
    assert datetime.fromisoformat(found["startedAt"]) <= datetime.now(UTC)
    assert sum(second["succeeded"] for second in found["timeline"]) == len(found["samples"]["e2e"]) == 4
    gaps = found["samples"]["itl"]
    assert gaps == sorted(gaps)
    assert len(gaps) == sum(found["samples"]["outputTokens"]) - 4
    (tmp_path / "a.json").write_text(result.out)
    compared = run("bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"))
    assert compared.code == 0
    assert "end to end" in compared.out
    assert "1.000" in compared.out


def test_prompts_and_results_come_from_standard_input(
    run: Run, server: KnownServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    base = ("bench", "--url", server.url, "--model", behaviour(), "--requests", "4", "-o", "json")
    given('{"prompt": "one"}\n{"prompt": "two"}\n')
    result = run(*base, "--prompts", "-")
    assert (result.code, json.loads(result.out)["runs"][0]["prompts"]["rows"]) == (0, 2)
    (tmp_path / "a.json").write_text(result.out)
    given(result.out)
    compared = run("bench", "compare", str(tmp_path / "a.json"), "-")
    assert (compared.code, "1.000" in compared.out) == (0, True)
    given(result.out)
    assert run("bench", "report", "-", "--output", str(tmp_path / "page.html")).code == 0
    given("{}")
    wrong = run("bench", "compare", "-", str(tmp_path / "a.json"))
    assert (wrong.code, "standard input is not a result of bench" in wrong.err) == (2, True)
    both = run("bench", "compare", "-", "-")
    assert (both.code, "standard input cannot be both results" in both.err) == (2, True)


def test_results_of_other_lengths_are_not_compared_without_a_word(
    run: Run, server: KnownServer, tmp_path: Path
) -> None:
    base = ("bench", "--url", server.url, "--model", behaviour(), "--requests", "4", "-o", "json")
    for name, flags in {
        "a": ("--input-tokens", "32", "--output-tokens", "8"),
        "b": ("--input-tokens", "lognormal:300:0.6:2000", "--seed", "3"),
        "c": ("--prompts", str(tmp_path / "prompts.jsonl")),
    }.items():
        (tmp_path / "prompts.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
        result = run(*base, *flags)
        assert result.code == 0, result.err
        (tmp_path / name).write_text(result.out)
    compared = run("bench", "compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert "prompts.input is 32 in the first and lognormal:300:0.6:2000 in the second" in compared.out
    assert "another load" in compared.out
    assert json.loads(run("bench", "compare", str(tmp_path / "a"), str(tmp_path / "b"), "-o", "json").out)[
        "comparisons"
    ][0]["sameLoad"] is False  # fmt: skip
    rows = json.loads((tmp_path / "c").read_text())["runs"][0]["prompts"]
    assert (rows["rows"], len(rows["sha256"])) == (2, 64)


@pytest.fixture(scope="module")
def measured(server: KnownServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of two loads; during the second one a replica was added."""
    args = ("--url", server.url, "--model", behaviour(), "--requests", "4", "--concurrency", "1,2", "-o", "json")
    with pytest.MonkeyPatch.context() as patch, io.StringIO() as out:
        patch.setattr(sys, "stdout", out)
        assert app.run(["bench", *args]) == 0
        found = json.loads(out.getvalue())
    assert [one["service"] for one in found["runs"]] == [None, None]
    found["runs"][1]["service"] = during([(0.0, LoadLook(replicas=1, wanted=2)), (2.0, LoadLook(replicas=2))], 0.0, 3.0)
    path = tmp_path_factory.mktemp("result") / "r.json"
    path.write_text(json.dumps(found))
    return path


def test_a_report_needs_nothing_else(run: Run, measured: Path, tmp_path: Path) -> None:
    page, images = tmp_path / "page.html", tmp_path / "new" / "images"
    result = run("bench", "report", str(measured), "--output", str(page), "--images", str(images))
    assert result.code == 0, str(result)
    text = page.read_text()
    names = ("end-to-end", "ttft", "tpot", "itl", "loads", "timeline", "service-2")
    assert text.count("<svg") == len(names)
    assert "2 in flight: replicas 1 → 2 (after 2s)" in text
    assert text.count("nothing: the plan of a server at --url is unknown") == 1
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert not re.search(r'(src|href)="(?!#)', text)
    assert {path.name for path in images.iterdir()} == {f"{name}.{form}" for name in names for form in ("png", "svg")}
    assert (images / "ttft.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_has_the_whole_configuration(run: Run, server: KnownServer, tmp_path: Path) -> None:
    load = ("--rate", "50", "--arrivals", "burst", "--burst", "2", "--requests", "4", "--warmup", "1", "--seed", "7")
    lengths = ("--input-tokens", "uniform:10:20", "--prefix-tokens", "4", "--prefixes", "2", "--output-tokens", "8")
    fields = ("--set", "temperature=0", "--slo", "ttft=5s,share=0.5", "-o", "json")
    result = run("bench", "--url", server.url, "--model", behaviour(), *load, *lengths, *fields)
    (tmp_path / "r.json").write_text(result.out.replace("http://SERVER", "http://server:8000"))
    assert run("bench", "report", str(tmp_path / "r.json"), "-o", str(tmp_path / "p.html")).code == 0
    text = (tmp_path / "p.html").read_text()
    rows = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    begun = datetime.fromisoformat(json.loads(result.out)["runs"][0]["startedAt"])
    assert {**rows, "Model": ""} == {
        "Target": "http://server:8000/v1",
        "Model": "",
        "Load": "50 requests/s, burst of 2",
        "Ends after": "4 requests",
        "Arrivals": "burst of 2",
        "Warm-up": "1 request",
        "Time limit of a request": "10m00s",
        "Limits": "TTFT 5.00 s for 50%",
        "Prompts": "10 to 20 tokens",
        "Shared beginning": "4 tokens, 2 different",
        "Seed": "7",
        "Answers": "8 tokens",
        "Requests": "chat, answers streamed, {&quot;temperature&quot;: 0}",
        "Measured": f"{begun:%Y-%m-%d %H:%M} UTC",
        "Versions": f"rayllm-ctl {__version__}, vLLM unknown, Ray unknown",
        "Predicted": "nothing: the plan of a server at --url is unknown",
    }


def test_on_a_narrow_screen_each_cell_names_its_column(run: Run, measured: Path, tmp_path: Path) -> None:
    assert run("bench", "report", str(measured), "-o", str(tmp_path / "p.html")).code == 0
    text = (tmp_path / "p.html").read_text()
    (table,) = re.findall("<tbody>(.*?)</tbody>", text, re.S)
    rows = [re.findall('data-label="(.*?)">(.*?)</td>', row) for row in table.strip().splitlines()]
    assert [dict(row)["load"] for row in rows] == ["1 in flight", "2 in flight"]
    assert [label for label, _ in rows[0]] == [
        "load", "requests/s", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "ITL p50", "ITL p99",
        "end to end p50", "end to end p99", "answered", "failed",
    ]  # fmt: skip
    assert "td::before { content: attr(data-label)" in text
    spans = [int(columns) for columns in re.findall('colspan="(\\d)"', text)]
    assert spans == [2, 2, 2, 2], "p50 and p99 of four figures"


def test_lines_of_plots_differ_without_colour(measured: Path) -> None:
    runs = json.loads(measured.read_text())["runs"]
    found = {plot.name: plot.images["svg"].decode() for plot in plots(runs, ("svg",))}
    for name in ("ttft", "tpot", "itl", "end-to-end", "timeline"):
        assert "<!-- 1 in flight -->" in found[name]
        assert "stroke-dasharray" in found[name], "the second line"
    styles = line_styles(12)
    assert len({(style["linestyle"], style["marker"]) for style in styles}) == len(styles)
    assert "<!-- gaps that were no longer, % -->" in found["itl"]
    assert "<dc:date>" not in found["ttft"]
    assert found == {plot.name: plot.images["svg"].decode() for plot in plots(runs, ("svg",))}, "equal bytes"


def test_an_older_result_without_gaps_has_their_percentiles(measured: Path) -> None:
    runs = json.loads(measured.read_text())["runs"]
    for one in runs:
        del one["samples"]["itl"]
    assert "itl" in {plot.name for plot in plots(runs, ("svg",))}


def test_a_report_creates_no_directory_and_names_what_to_install(
    run: Run, measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "new" / "page.html"
    result = run("bench", "report", str(measured), "--output", str(page))
    assert result.code == 2
    assert f"there is no directory {page.parent}" in result.err
    assert f"hint: mkdir -p {page.parent}" in result.err
    assert not page.parent.exists()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    missing = run("bench", "report", str(measured), "--output", str(tmp_path / "page.html"))
    assert missing.code == 2
    assert "the package matplotlib, which the extra bench installs\n\nhint: pip install matplotlib\n" in missing.err
    assert list(tmp_path.glob("*.html")) == []


def test_prompts_of_a_file_and_fields_reach_the_server(run: Run, server: KnownServer, tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text('{"prompt": "Hello", "max_tokens": 3}\n{"prompt": "World"}\n')
    before = len(server.bodies)
    flags = ("--prompts", str(tmp_path / "prompts"), "--set", "temperature=0", "--output-tokens", "9")
    to_server = ("bench", "--url", server.url, "--model", behaviour(), "--requests", "2", "--concurrency", "1")
    result = run(*to_server, *flags)
    assert result.code == 0, str(result)
    first, second = server.bodies[before:]
    assert (first["messages"][0]["content"], first["max_tokens"], first["temperature"]) == ("Hello", 3, 0)
    assert (second["messages"][0]["content"], second["max_tokens"]) == ("World", 9)
    assert run(*to_server, *flags, "--set", "max_tokens=4").code == 0
    assert [body["max_tokens"] for body in server.bodies[before + 2 :]] == [4, 4]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("comapre",), 1, "there is no service comapre"),
        (("comapre", "-n", "llm"), 1, "hint: rayllm-ctl status -n llm\n      did you mean rayllm-ctl bench compare?\n"),
        (("comapre", "a.json", "b.json"), 2, 'unknown command "comapre", did you mean "compare"?'),
        (("reprot", "a.json", "--images", "x"), 2, "rayllm-ctl bench run --help\n"),
        (("reprot", "a.json", "--images", "x"), 2, "did you mean rayllm-ctl bench report?"),
        (("chat", "a.json"), 2, "unexpected argument: a.json"),
    ],
)
def test_a_command_with_a_typing_error_is_named(run: Run, words: tuple[str, ...], code: int, says: str) -> None:
    result = run("bench", *words)
    assert (result.code, says in result.err) == (code, True), str(result)


def test_a_service_with_a_name_like_a_command_is_measured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str | None] = []

    def measure(flags: Flags, *_: object) -> Results:
        measured.append(flags.name)
        raise UserError("measured")

    monkeypatch.setattr(workflow, "measure", measure)
    assert run("bench", "comapre").code == 1
    assert measured == ["comapre"]


URL = ("--url", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "a service or --url is required"),
        (("x", *URL), "both NAME and --url were given"),
        ((*URL, "--rate", "1", "--concurrency", "2"), "cannot be combined"),
        ((*URL, "--concurrency", "0"), "whole numbers greater than 0"),
        ((*URL, "--find-max"), "--find-max requires --slo"),
        ((*URL, "--requests", "10", "--concurrency", "100"), "--requests 10: there are never 100 requests in flight"),
        ((*URL, "--requests", "3", "--concurrency", "1,2,4"), "hint: --requests 40\n      --concurrency 3\n"),
        ((*URL, "--slo", "ttft"), "ttft"),
        ((*URL, "--slo", "ttft=1s,ttft=2s"), "ttft is given twice"),
        (("--url", "http://127.0.0.1:99999/v1"), "the port must be a number from 1 to 65535"),
        (("--url", "http://a b/v1"), "is not an http or https address"),
        ((*URL, "--slo", "speed=1s"), '"speed=1s" is not one of'),
        ((*URL, "--input-tokens", "uniform:5"), "expected N, uniform:MIN:MAX"),
        ((*URL, "--arrivals", "burst", "--rate", "1"), "require each other"),
        ((*URL, "--prefix-tokens", "256"), "leaves nothing of prompts of 256 tokens"),
        ((*URL, "--local"), "--local is for NAME"),
        ((*URL, "--api-key-secret", "a/b"), "--api-key-secret is for load from inside the cluster"),
        (("--url", "ftp://x/v1"), "not an http or https address"),
        (("--url", "http://u:p@x/v1"), "must consist of scheme, host, port and path"),
        (("x", "--ca-file", __file__), "are for --url"),
        ((*URL, "--ca-file", __file__), "are for https"),
        (("--url", "https://127.0.0.1:9/v1", "--model", "m", "--ca-file", __file__), "has no usable certificates"),
        (("--url", "http://x:y/v1"), "the port must be a number"),
        ((*URL, "--duration", "0s"), "--duration must be greater than 0"),
        ((*URL, "--slo", "ttft=0"), "longer than 0"),
        (
            (*URL, "--set", "stream=false"),
            "--set stream: bench sets this field itself\n\nhint: --stream or --no-stream",
        ),
        ((*URL, "--set", "stream_options={}"), "hint: --stream or --no-stream"),
        ((*URL, "--set", "model=foo"), "--set model: bench sets this field itself\n\nhint: --model NAME"),
        ((*URL, "--set", "max_tokens=5"), "hint: --output-tokens"),
        ((*URL, "--set", "messages=[]"), "hint: --prompts FILE"),
        ((*URL, "-n", "llm"), "--url asks no cluster: -n cannot be combined with it\n\nhint: remove -n"),
        ((*URL, "--context", "a", "--kubeconfig", "b"), "asks no cluster: --kubeconfig, --context cannot be"),
        (
            (*URL, "--as", "me", "--as-group", "g", "--request-timeout", "1s"),
            "--as, --as-group, --request-timeout cannot",
        ),
    ],
)
def test_flags_that_cannot_work(run: Run, flags: tuple[str, ...], says: str) -> None:
    result = run("bench", "run", *flags)
    assert result.code == 2, str(result)
    assert says in result.err
    assert "u:p" not in result.err


def test_a_key_of_a_file_is_not_for_the_job(run: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1\n")
    result = run("bench", "x", "--api-key-file", str(tmp_path / "key"))
    assert result.code == 2
    assert "--api-key-file is for load from this machine" in result.err
    assert "sk-1" not in result.err


def test_a_server_that_is_not_there(run: Run) -> None:
    result = run("bench", *URL, "--requests", "2")
    assert result.code == 1
    assert "2 × connect: Connection refused" in result.out
    assert "load       2 in flight" in result.out
    unknown = run("bench", "--url", "http://127.0.0.1:9/v1")
    assert unknown.code == 1
    assert unknown.err.startswith(
        "✗ GET http://SERVER/v1/models failed: connection refused\n\nhint: check the address, which includes /v1"
    )
    assert "--model" not in unknown.err


@pytest.mark.parametrize(
    ("error", "says", "hint"),
    [
        (URLError(gaierror(-2, "Name or service not known")), "its name does not resolve", "check the address"),
        (URLError(ssl.SSLError(1, "[SSL: TLSV1_ALERT] alert")), "TLS failed", "--url http://host/v1 "),
        (HTTPError("https://host/v1/models", 401, "", Message(), None), "HTTP 401", "--api-key-file FILE    # or"),
        (HTTPError("https://host/v1/models", 404, "", Message(), None), "HTTP 404", "check the address"),
    ],
)
def test_the_first_hint_is_about_what_failed(
    error: OSError, says: str, hint: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("urllib.request.urlopen", fails)
    result = run("bench", "--url", "https://host/v1")
    assert result.code == 1
    assert says in result.err
    assert f"\nhint: {hint}" in result.err


def test_a_key_that_the_server_refuses_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HTTPError("http://host/v1/models", 401, "", Message(), None)

    monkeypatch.setattr("urllib.request.urlopen", fails)
    monkeypatch.setenv("RAYLLM_API_KEY", "sk-wrong")
    result = run("bench", "--url", "http://host/v1")
    assert "HTTP 401: the server rejected the key of RAYLLM_API_KEY\n" in result.err
    assert "sk-wrong" not in result.err
