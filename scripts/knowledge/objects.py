"""What vLLM's own classes take on torch's meta device: the measured part of three files below tests/data.

    python -m scripts.knowledge.objects [NAME ...]

The configs are kept by hand, what vLLM makes of them is written anew: architectures.json (parameters and pages of a
rank), encoders.jsonl (parameters at TP 1 and 2), parameters.json (parameters and buffers of models of the catalog).
builds.json beside this file says what a model needs besides the fields that the data keeps, and which ones this
cannot build: their figures stay, and are listed. NAME: only these cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog import models
from scripts.knowledge.environment import interpreter, site_packages
from scripts.knowledge.wheels import package_sources

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
BUILDS: Mapping[str, Any] = json.loads(Path(__file__).with_name("builds.json").read_text(encoding="utf-8"))

_INSIDE = Path(__file__).with_name("inside_vllm.py")
_QUANTIZED = ("quantization_config", "compression_config", "hf_quant_config")
_STATES = "MambaSpec"

Ranks = Mapping[str, Mapping[str, Any]]


def architectures(text: str, wanted: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The text of architectures.json with what was built, and what could not be built."""
    document = json.loads(text)
    cases = []
    for name, case in document["cases"].items():
        if wanted(name):
            older = (
                {} if case["version"] == BUILDS["vllm"] else {"sources": str(package_sources("vllm", case["version"]))}
            )
            cases.append(
                {"name": name, "config": case["config"], "tensors": [int(rank) for rank in case["ranks"]], **older}
            )
    found, problems = built("architectures.json", BUILDS["vllm"], cases)
    for name, ranks in found.items():
        document["cases"][name]["ranks"] = {
            rank: {"parameters": figures["parameters"], "pages": pages(figures["pages"])}
            for rank, figures in ranks.items()
        }
    rows = ",\n".join(
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items())
        + "\n  }"
        for name, case in document["cases"].items()
    )
    return f'{{\n "about": {json.dumps(document["about"])},\n "cases": {{\n{rows}\n }}\n}}\n', problems


def pages(specs: Iterable[list[Any]]) -> list[list[int]]:
    """Pages as [bytes of 16 tokens or of a state, window, how many]."""
    counts: Counter[tuple[int, int]] = Counter()
    for size, block, window, count, kind in specs:
        counts[size if kind == _STATES or block % 16 else size * 16 // block, window] += count
    return [[*page, count] for page, count in sorted(counts.items())]


def encoders(text: str, wanted: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The text of encoders.jsonl with what was built, and what could not be built."""
    rows = [json.loads(line) for line in text.splitlines()]
    found, problems = built(
        "encoders.jsonl",
        BUILDS["vllm"],
        [{"name": row["name"], "config": row["config"], "tensors": [1, 2]} for row in rows if wanted(row["name"])],
    )
    for row in rows:
        if row["name"] in found:
            row["parameters"] = [found[row["name"]][rank]["parameters"] for rank in ("1", "2")]
    return "".join(f"{json.dumps(row)}\n" for row in rows), problems


def parameters(text: str, wanted: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The text of parameters.json with what was built, and what could not be built."""
    document = json.loads(text)
    ranks: dict[str, list[int]] = {}
    for name, tensor, *_ in document["rows"]:
        if wanted(name):
            ranks.setdefault(name, []).append(tensor)
    cases = [{"name": name, "config": _plain(name), "tensors": tensors} for name, tensors in ranks.items()]
    found, problems = built("parameters.json", document["vllm"], cases)
    rows = []
    for name, tensor, *figures in document["rows"]:
        figures = [found[name][str(tensor)][part] for part in ("parameters", "buffers")] if name in found else figures
        rows.append(f"  {json.dumps([name, tensor, *figures])}")
    head = "".join(f" {json.dumps(key)}: {json.dumps(document[key])},\n" for key in ("about", "vllm"))
    return f'{{\n{head} "rows": [\n' + ",\n".join(rows) + "\n ]\n}\n", problems


def _plain(name: str) -> dict[str, Any]:
    """The config of a model of the catalog without its quantization."""
    known = models.find_model(name)
    if known is None:
        raise SystemExit(f"the catalog does not know {name}")
    return _without(known.config)


def _without(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in _QUANTIZED}
    return {key: _without(value) if isinstance(value, dict) else value for key, value in kept.items()}


FILES: Mapping[str, Callable[[str, Callable[[str], bool]], tuple[str, list[str]]]] = {
    "architectures.json": architectures,
    "encoders.jsonl": encoders,
    "parameters.json": parameters,
}


def built(file: str, version: str, cases: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Ranks], list[str]]:
    """What each case of a file takes by its name, and a line for each one that could not be built."""
    needs, unbuilt = BUILDS[file]["models"], BUILDS[file]["unbuilt"]
    asked = [{**case, **needs.get(case["name"], {})} for case in cases]
    tried = [case for case in asked if case["name"] not in unbuilt]
    problems = [f"{case['name']}: {unbuilt[case['name']]}" for case in asked if case not in tried]
    if not tried:
        return {}, problems
    ended = subprocess.run(
        [interpreter(), str(_INSIDE)],
        input=json.dumps(tried),
        env={**os.environ, "PYTHONPATH": str(site_packages(version))},
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    if len(answers) != len(tried):
        raise SystemExit(f"vLLM {version} ended after {len(answers)} of {len(tried)} models:\n{ended.stderr[-2000:]}")
    problems += [f"{answer['name']}: {answer['problem']}" for answer in answers if "problem" in answer]
    return {answer["name"]: answer["ranks"] for answer in answers if "ranks" in answer}, problems


def main() -> int:
    """1 if a model could not be built that should be."""
    names = set(sys.argv[1:])
    failed = False
    for file, make in FILES.items():
        text, problems = make((DATA / file).read_text(encoding="utf-8"), lambda name: not names or name in names)
        (DATA / file).write_text(text, encoding="utf-8")
        for problem in problems:
            failed |= problem.partition(":")[0] not in BUILDS[file]["unbuilt"]
            sys.stdout.write(f"{file}: kept as it is: {problem}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
