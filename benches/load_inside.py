"""The part of bench_load that runs beside vLLM: the same load from three programs, and what each took and said."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

PORT = 18080
URL = f"http://127.0.0.1:{PORT}"
CLIENTS, CHUNKS = 16, 64
FIRST, GAP, PACED = 0.1, 0.02, 20
"""Of the server that keeps a pace: seconds before the first chunk and between chunks, and chunks."""
REQUESTS = {"hey": (2_000, 22_000), "vllm": (100, 700), "guidellm": (100, 700)}
"""Two sizes for each comparison: the difference of their CPU times is that of the requests alone, without the start."""
MOST_APART = 0.05
FROM_SET = 0.02
"""Of our figures from what the server was told, relative."""

RATE, STOPPED = 500.0, 1.0
"""Requests per second of the open loop, and seconds for which the server or the generator stands still in it."""

PROMPT = "the of and to in is that for it as was with be by on not"

Run = Callable[[int, bool], dict[str, float]]
"""Sends so many requests, for streams or whole answers; the program's own figures in seconds."""


def say(text: str) -> None:
    sys.stdout.write(f"bench: {text}\n")
    sys.stdout.flush()


@contextmanager
def server(chunks: int, first: float, gap: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "/mnt/load_server.py", str(PORT), str(chunks), str(first), str(gap)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def ours(requests: int, stream: bool) -> dict[str, float]:
    found = result(output(generator({"concurrency": CLIENTS, "requests": requests}, stream)))
    assert found["requests"]["succeeded"] == requests, found["errors"]
    return {name: figure["p50"] for name, figure in found["latencySeconds"].items() if figure}


def generator(load: dict[str, Any], stream: bool) -> list[str]:
    """The command of our own."""
    row = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": CHUNKS}
    settings = {
        "target": {"url": f"{URL}/v1", "models": ["tiny"], "api": "chat", "ca_file": "", "insecure": False},
        "loads": [load],
        "prompts": {"input": {"kind": "fixed", "low": 16, "high": 16}, "output": None, "rows": [row]},
        "objective": {},
        "body": {},
        "stream": stream,
    }
    file = Path.home() / "settings.json"
    file.write_text(json.dumps(settings))
    return [sys.executable, "-m", "rayllm_ctl.loadtest", str(file)]


def result(said: str) -> dict[str, Any]:
    """What our generator wrote as its result."""
    (results,) = (json.loads(line.split(" ", 1)[1])["results"] for line in said.splitlines() if '{"results"' in line)
    found: dict[str, Any] = results[0]
    return found


def hey(requests: int, _: bool) -> dict[str, float]:
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": CHUNKS})
    command = ["/mnt/hey", "-n", str(requests), "-c", str(CLIENTS), "-m", "POST", "-T", "application/json", "-d", body]
    said = output([*command, f"{URL}/v1/chat/completions"])
    found = re.search(r"50% in ([\d.]+) secs", said)
    assert found, said
    return {"e2e": float(found[1])}


def vllm(requests: int, _: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai-chat"]
    lengths = ["--random-input-len", "16", "--random-output-len", str(CHUNKS)]
    load = ["--dataset-name", "random", *lengths, "--num-prompts", str(requests), "--max-concurrency", str(CLIENTS)]
    said = output([
        *command, *load, "--base-url", URL, "--endpoint", "/v1/chat/completions", "--model", "tiny",
        "--tokenizer", "/mnt/tiny", "--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm",
    ])  # fmt: skip
    names = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2EL"}
    found = {name: re.search(rf"Median {label} \(ms\): +([\d.]+)", said) for name, label in names.items()}
    return {name: float(match[1]) / 1000 for name, match in found.items() if match}


def guidellm(requests: int, _: bool) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "guidellm",
        "run",
        "--disable-console",
        "--output",
        f"kind=json,path={Path.home()}",
    ]
    load = ["--profile", f"kind=concurrent,streams={CLIENTS}", "--constraint", f"kind=max_requests,count={requests}"]
    data = ["--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={CHUNKS}"]
    backend = ["--backend", f"kind=openai_http,target={URL},model=tiny", "--tokenizer", "kind=hf_auto,model=/mnt/tiny"]
    output([*command, *load, *data, *backend])
    metrics = json.loads((Path.home() / "benchmarks.json").read_text())["benchmarks"][0]["metrics"]
    # Its time per output token is the whole time, divided by all tokens: another figure.
    names = {
        "ttft": ("time_to_first_token_ms", 1e-3),
        "itl": ("inter_token_latency_ms", 1e-3),
        "e2e": ("request_latency", 1),
    }
    return {name: unit * metrics[label]["successful"]["median"] for name, (label, unit) in names.items()}


def cpu(run: Run, sizes: tuple[int, int], stream: bool) -> float:
    """CPU microseconds of a program for each request."""
    used = []
    for size in sizes:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(size, stream)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1e6 * (used[1] - used[0]) / (sizes[1] - sizes[0])


def compared(name: str, other: Run, stream: bool, pairs: int) -> bool:
    """Whether this program needs no more CPU for a request, or a chunk, than another one."""
    times: dict[str, list[float]] = {"ours": [], name: []}
    with server(CHUNKS if stream else 0, 0, 0):
        for _ in range(pairs):
            times["ours"].append(cpu(ours, REQUESTS[name], stream))
            times[name].append(cpu(other, REQUESTS[name], stream))
    own, others = (median(times[program]) / (CHUNKS if stream else 1) for program in ("ours", name))
    what = "chunk" if stream else "request"
    ratio = others / own
    say(f"CPU per {what:<8} ours {own:7.2f} us   {name:<5} {others:7.2f} us   per core {ratio:.2f} times as many")
    return ratio >= 1


def agreed(name: str, other: Run, chunks: int) -> bool:
    """Whether both say the same of a server that keeps a pace."""
    with server(chunks, FIRST, GAP):
        own, others = ours(160, chunks > 0), other(160, chunks > 0)
    good = True
    for figure in sorted(set(own) & set(others)):
        apart = abs(own[figure] - others[figure]) / others[figure]
        good &= apart < MOST_APART
        say(f"{figure:<6} p50     ours {1e3 * own[figure]:7.1f} ms   {name:<5} {1e3 * others[figure]:7.1f} ms")
    return good


def as_set() -> bool:
    """Whether our figures are those that the server was told."""
    with server(PACED, FIRST, GAP):
        found = result(output(generator({"concurrency": 4, "requests": 80}, True)))["latencySeconds"]
    wanted = {"ttft": FIRST, "itl": GAP, "tpot": GAP, "e2e": FIRST + (PACED - 1) * GAP}
    apart = {name: found[name]["mean"] / seconds - 1 for name, seconds in wanted.items()}
    say("from the set pace  " + "   ".join(f"{name} {share:+.1%}" for name, share in apart.items()))
    return all(abs(share) <= FROM_SET for share in apart.values())


def keeps_its_schedule() -> bool:
    """Whether an open loop sends as many requests as it is told, each when it is due."""
    with server(0, 0, 0):
        load = {"rate": RATE, "arrivals": "constant", "duration": 6.0}
        found = result(output(generator(load, False)))
    late, rate = found["generator"]["lateStartSeconds"], found["throughput"]["requestsPerSecond"]
    say(
        f"open loop      {rate:.1f} of {RATE:.0f} requests/s, late by {1e3 * late['p99']:.2f} ms at the 99th percentile"
    )
    return abs(rate / RATE - 1) <= FROM_SET and late["p99"] < 0.01


def shows_a_stop(of: str) -> bool:
    """Whether the percentiles say that the server, or the generator itself, stood still: of 4 s, requests of a quarter
    waited, from nothing to all of the time."""
    with server(0, 0, 0) as serving:
        load = {"rate": RATE, "arrivals": "constant", "duration": 4.0}
        process = subprocess.Popen(generator(load, False), stdout=subprocess.PIPE, text=True)
        time.sleep(2.5)  # its start takes a part of it
        stopped = serving if of == "server" else process
        stopped.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED)
        stopped.send_signal(signal.SIGCONT)
        found = result(process.communicate()[0])
    e2e = found["latencySeconds"]["e2e"]
    say(f"{of} stopped for {STOPPED:.0f} s: p50 {e2e['p50']:.3f} s, p90 {e2e['p90']:.3f} s, max {e2e['max']:.3f} s")
    shown = abs(e2e["p90"] / (0.6 * STOPPED) - 1) < 0.1 and abs(e2e["max"] / STOPPED - 1) < 0.1
    return shown and found["requests"]["failed"] == 0


def main() -> int:
    pairs = int(sys.argv[1])
    met = [
        as_set(),
        keeps_its_schedule(),
        shows_a_stop("server"),
        shows_a_stop("generator"),
        agreed("hey", hey, 0),
        agreed("vllm", vllm, PACED),
        agreed("guidellm", guidellm, PACED),
        compared("hey", hey, False, pairs),
        compared("vllm", vllm, True, 1),
        compared("guidellm", guidellm, True, 1),
    ]
    verdict = "met" if all(met) else "NOT MET"
    say(
        f"limits         within {FROM_SET:.0%} of what was set and {MOST_APART:.0%} of the others, schedule kept, "
        f"stops shown, no more CPU: {verdict}"
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
