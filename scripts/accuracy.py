"""Compare the planner with start-up logs of vLLM and with its measured speed, and write docs/contributing/accuracy.md.

    python -m scripts.accuracy

Measured rows: tests/data/measured.json, each with its source; parameter bytes: tests/data/parameters.json. Rows of
tier "wide" lack a flag or a source that can be looked up, or carry a guess: no figure is taken from them. A difference
below half a unit of the last printed digit counts as none. Speed: scripts/measured_speed.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Parallelism
from rayllm_ctl.planner.memory import evidence
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request
from rayllm_ctl.workflows.plan.model import make_plan
from scripts.speed_report import speed_report

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30
FIGURES = {
    "weightsGiB": "weights",
    "kvGiB": "KV cache",
    "tokens": "KV tokens",
    "concurrency": "requests at full length",
}


@dataclass(frozen=True)
class Compared:
    """A measured row beside its plan. errors: figure -> signed error in per cent."""

    row: Mapping[str, Any]
    plan: Plan | None
    errors: Mapping[str, float]
    covered: bool | None
    problem: str = ""

    @property
    def wrong_fit(self) -> bool:
        return self.plan is not None and self.plan.verdict == "fits" and self.row["outcome"] != "ok"

    @property
    def wrong_refusal(self) -> bool:
        return self.plan is not None and not self.plan.runs and self.row["outcome"] == "ok"


def compare(row: Mapping[str, Any]) -> Compared:
    """Plan what was measured."""
    service = LLMService(
        name="accuracy",
        model=Model(row["model"]),
        engine=Engine(
            vllm_version=row["vllm"],
            max_model_len=row["maxModelLen"],
            dtype=row.get("dtype"),
            quantization=row.get("quantization"),
            kv_cache_dtype=row.get("kvCacheDtype"),
            gpu_memory_utilization=row.get("utilization"),
            max_num_seqs=row.get("maxNumSeqs"),
            max_num_batched_tokens=row.get("maxNumBatchedTokens"),
            args=row.get("args", {}),
        ),
        accelerator=Accelerator(gpu=row["gpu"]),
        parallelism=Parallelism(row["tensor"], row["pipeline"]),
    )
    try:
        plan = make_plan(service, OFFLINE)
    except UserError as error:
        return Compared(row, None, {}, None, error.message)
    if plan.memory is None:
        return Compared(row, plan, {}, None)
    memory = plan.memory
    planned = {
        "weightsGiB": memory.weights_bytes / GIB,
        "kvGiB": memory.kv_cache_bytes.typical / GIB,
        "tokens": memory.kv_cache_tokens.typical,
        "concurrency": memory.max_concurrency.typical,
    }
    errors = {name: _error(planned[name], row[name]) for name in row["judged"] if name in row}
    if "tokens" in errors and "concurrency" in row:
        # Before 0.21 the printed tokens of hybrid models are not rate; the printed concurrency is.
        other = _error(planned["tokens"], row["concurrency"] * row["maxModelLen"])
        errors["tokens"] = min(errors["tokens"], other, key=abs)
    covered = None
    if "kvGiB" in errors:
        half = _unit(row["kvGiB"]) / 2
        covered = memory.kv_cache_bytes.low / GIB - half <= row["kvGiB"] <= memory.kv_cache_bytes.high / GIB + half
    return Compared(row, plan, errors, covered)


def _error(planned: float, measured: float) -> float:
    if abs(planned - measured) <= _unit(measured) / 2:
        return 0.0
    return 100 * (planned / measured - 1)


def _unit(figure: float) -> float:
    """Size of the last printed digit; two decimals are printed where a figure ends in a zero."""
    if isinstance(figure, int):
        return 1.0
    return 10.0 ** -max(2, len(repr(figure).partition(".")[2]))


def parameter_errors() -> list[float]:
    """Errors of the parameter bytes in per cent, against vLLM's own objects."""
    document = json.loads((ROOT / "tests/data/parameters.json").read_text(encoding="utf-8"))
    errors = []
    for model, tensor, parameters, buffers in document["rows"]:
        errors.append(_parameter_error(document["vllm"], model, tensor, (parameters, parameters + buffers)))
    return errors


def _parameter_error(version: str, model: str, tensor: int, targets: tuple[int, int]) -> float:
    known = models.find_model(model)
    if known is None:
        raise SystemExit(f"the catalog does not know {model}")
    facts = read_config({key: value for key, value in known.config.items() if key != "quantization_config"})
    service = LLMService(
        name="accuracy",
        model=Model(model),
        engine=Engine(max_model_len=8192, dtype="bfloat16"),
        parallelism=Parallelism(tensor, 1),
    )
    plan = decide(Request(service, facts, "catalog", engine(version), (gpus.find_gpu("H200-141GB"),)))
    if plan.memory is None:
        raise SystemExit(f"{model} at TP {tensor} was rejected: {plan.reasons}")
    return min((100 * (plan.memory.parameter_bytes / t - 1) for t in targets), key=abs)


@dataclass(frozen=True)
class LeftOut:
    """The bands of rows that are not counted as evidence: how many rows, how many hold, and their median width in per
    cent of the measured KV cache."""

    title: str
    rows: int
    inside: int
    width: float


def leave_out(rows: Sequence[Mapping[str, Any]]) -> Iterable[LeftOut]:
    """Bands where all evidence but one campaign's, or that campaign's, is taken away."""
    campaign, rest = evidence.LOGS[:1], evidence.LOGS[1:]
    for title, logs, judged in (
        ("the logs of H100 with 0.15 to 0.19 are the only evidence", campaign, [r for r in rows if not _campaign(r)]),
        ("they are left out", rest, [r for r in rows if _campaign(r)]),
    ):
        evidence.LOGS = logs
        found = [c for c in map(compare, judged) if c.covered is not None]
        yield LeftOut(title, len(found), sum(bool(c.covered) for c in found), median(_width(c) for c in found))
    evidence.LOGS = (*campaign, *rest)


def _campaign(row: Mapping[str, Any]) -> bool:
    return row["gpu"] == "H100-80GB" and str(row["vllm"]) in ("0.15.0", "0.16.0", "0.17.0", "0.18.0", "0.19.0")


def _width(item: Compared) -> float:
    if item.plan is None or item.plan.memory is None:
        return 0.0
    band = item.plan.memory.kv_cache_bytes
    return 100 * (band.high - band.low) / GIB / float(item.row["kvGiB"])


def report(
    core: Sequence[Compared], wide: Sequence[Compared], parameters: Sequence[float], left_out: Iterable[LeftOut]
) -> str:
    """docs/contributing/accuracy.md."""
    sources = {source: n for n, source in enumerate(dict.fromkeys(_short(c.row) for c in (*core, *wide)), 1)}
    lines = [
        "# Accuracy of the planner",
        "",
        "Made by `make accuracy` from `tests/data/measured.json` (start-up logs of vLLM, each row with its",
        "source), `tests/data/parameters.json` (vLLM's own objects) and `tests/data/speed.json` (public measurements).",
        "Errors are those of the plan.",
        "",
        "## Memory",
        "",
        "![Planned KV cache against measured KV cache](accuracy.svg)",
        "",
        "| figure | rows | median error | 90th percentile | largest |",
        "|---|---|---|---|---|",
    ]
    for name, title in FIGURES.items():
        lines.append(_summary_row(title, [c.errors[name] for c in core if name in c.errors]))
    lines.append(_summary_row("parameter bytes", parameters))
    covered = [c.covered for c in core if c.covered is not None]
    ran = [c for c in core if c.row["outcome"] == "ok"]
    width = median(_width(c) for c in core if c.covered is not None)
    risky = sum(c.plan is not None and c.plan.verdict == "risky" for c in ran)
    lines += [
        "",
        f"- The measured KV cache lies inside the plan's band in {sum(covered)} of {len(covered)} rows.",
        f'- Wrong "fits": {sum(c.wrong_fit for c in core)}; wrong rejections: {sum(c.wrong_refusal for c in core)}; '
        f"risky, but ran: {risky} of {len(ran)}.",
        f"- Median width of the bands: {width:.1f} % of the KV cache.",
        "",
        "Bands are wider for combinations without a log ([by how much](measurements.md#spreads-of-memory-bands)). "
        "They also hold for logs that are left out:",
        "",
        "| evidence | rows judged | inside the band | median width |",
        "|---|---|---|---|",
        *[f"| {x.title} | {x.rows} | {x.inside} | {x.width:.1f} % |" for x in left_out],
        "",
        "### Rows with all flags known",
        "",
        *_table(core, sources),
        "",
        "### Rows that are not counted",
        "",
        "A flag is unknown or guessed, or the source cannot be looked up; the note says which.",
        "",
        *_table(wide, sources),
        "",
        "### Sources of the logs",
        "",
        *[f"{number}. {source}" for source, number in sources.items()],
        "",
        *speed_report(),
    ]
    return "\n".join(lines) + "\n"


def _summary_row(title: str, errors: Iterable[float]) -> str:
    values = sorted(abs(e) for e in errors)
    if not values:
        return f"| {title} | 0 | - | - | - |"
    p90 = values[min(len(values) - 1, max(0, -(-len(values) * 90 // 100) - 1))]
    return f"| {title} | {len(values)} | {median(values):.2f} % | {p90:.2f} % | {values[-1]:.2f} % |"


def _table(rows: Sequence[Compared], sources: Mapping[str, int]) -> list[str]:
    lines = [
        "| model | GPUs | vLLM | settings | weights GiB, planned / measured | KV GiB, planned (band) / measured "
        "| verdict / outcome | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for item in rows:
        row, memory = item.row, item.plan.memory if item.plan else None
        gpus = f"{row['tensor'] * row['pipeline']} × {row['gpu']}"
        weights = f"{memory.weights_bytes / GIB:.2f}" if memory else "-"
        band = memory.kv_cache_bytes if memory else None
        kv = f"{band.typical / GIB:.2f} ({band.low / GIB:.2f}–{band.high / GIB:.2f})" if band else "-"
        verdict = item.plan.verdict if item.plan else item.problem
        note = f" ({row['note']})" if "note" in row else ""
        lines.append(
            f"| {row['model']}{note} | {gpus} | {row['vllm'] or 'unknown'} | {_settings(row)} "
            f"| {weights} / {row.get('weightsGiB', '-')} | {kv} / {row.get('kvGiB', '-')} "
            f"| {verdict} / {row['outcome']} | {sources[_short(row)]} |"
        )
    return lines


def _settings(row: Mapping[str, Any]) -> str:
    """The flags of a run, as far as they were given."""
    layout = f"TP {row['tensor']}" + (f" PP {row['pipeline']}" if row["pipeline"] > 1 else "")
    told = [layout, f"{row['maxModelLen']:,} tokens"]
    told += [f"utilization {row['utilization']}"] if "utilization" in row else []
    told += [row["dtype"]] if row.get("dtype", "bfloat16") != "bfloat16" else []
    told += [f"{row['quantization']} on load"] if "quantization" in row else []
    told += [f"KV {row['kvCacheDtype']}"] if "kvCacheDtype" in row else []
    told += [f"{row['maxNumSeqs']} sequences"] if "maxNumSeqs" in row else []
    told += [f"{row['maxNumBatchedTokens']:,} tokens a step"] if "maxNumBatchedTokens" in row else []
    told += [f"{name} {value}" for name, value in row.get("args", {}).items()]
    return ", ".join(told)


def _short(row: Mapping[str, Any]) -> str:
    """A source without the name of the one log file."""
    words = str(row["source"]).split()
    return " ".join(word for word in words if not word.endswith(".log"))


def plot(core: Sequence[Compared], path: Path) -> None:
    """Planned against measured KV cache, with the bands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [(c, c.plan.memory.kv_cache_bytes) for c in core if "kvGiB" in c.errors and c.plan and c.plan.memory]
    matplotlib.rcParams["svg.hashsalt"] = "accuracy"
    figure, axes = pyplot.subplots(figsize=(6.4, 4.8))
    measured = [c.row["kvGiB"] for c, _ in shown]
    planned = [band.typical / GIB for _, band in shown]
    spread = [
        [band.typical / GIB - band.low / GIB for _, band in shown],
        [band.high / GIB - band.typical / GIB for _, band in shown],
    ]
    most = max([*measured, *planned]) * 1.05
    axes.plot([0, most], [0, most], color="0.7", linewidth=1)
    axes.errorbar(measured, planned, yerr=spread, fmt="o", markersize=3, linewidth=1)
    axes.set_xlabel("measured KV cache, GiB per GPU")
    axes.set_ylabel("planned KV cache with its band, GiB per GPU")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    rows = json.loads((ROOT / "tests/data/measured.json").read_text(encoding="utf-8"))
    compared = [compare(row) for row in rows]
    core = [c for c in compared if c.row["tier"] == "core"]
    wide = [c for c in compared if c.row["tier"] != "core"]
    text = report(core, wide, parameter_errors(), leave_out([c.row for c in core]))
    (ROOT / "docs/contributing/accuracy.md").write_text(text, encoding="utf-8")
    plot(core, ROOT / "docs/contributing/accuracy.svg")
    sys.stdout.write("\n".join(text.splitlines()[8:27]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
