"""The page of a sweep: its table, with variants that have no result."""

from __future__ import annotations

import io
import re

from rayllm_ctl.console.bench.pages import sweep_page
from rayllm_ctl.console.bench.report import html
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.sweep import Sweep, VariantRecord
from tests.cli.bench.test_sweep import measured

RESULTS = [
    {"models": ["tiny/Model"], "runs": [{**measured(speed), "load": {"concurrency": 8, "requests": 10}}]}
    for speed in (4.0, 2.0)
]
RECORDS = [
    VariantRecord(
        f"v{number}", {"parallelism.tensor": number}, "measured", {}, {}, gpus=(number, number), result=result
    )
    for number, result in enumerate(RESULTS, 1)
]
REJECTED = VariantRecord(
    "v3", {"parallelism.tensor": 3}, "rejected", {}, {}, code="heads", message="TP 3 does not divide 64 heads"
)


def test_a_sweep_has_a_row_for_each_variant_and_says_why_one_has_no_result() -> None:
    sweep = Sweep("chat", ("parallelism.tensor",), (*RECORDS, REJECTED))
    text = html(sweep_page(sweep, (), Printer(io.StringIO(), colors=False, terminal=False)))
    rows = [
        dict(re.findall('data-label="(.*?)">(.*?)</td>', row)) for row in re.findall("<tr>(<td.*?)</tr>", text, re.S)
    ]
    assert [(row["tensor"], row["requests/s"]) for row in rows] == [("1", "4 *"), ("2", "2"), ("3", "rejected")]
    assert {len(row) for row in rows} == {12}, "a cell for each column"
    assert (rows[1]["TTFT p50"], rows[1]["tokens/s per GPU"], rows[2]["GPUs"]) == ("500 ms", "100", "")
    assert "<li>‼ tensor 3: rejected: heads: TP 3 does not divide 64 heads</li>" in text
    assert "<li>Best: tensor 1: requests/s," in text
    shown = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert (shown["Varied"], shown["Model"], shown["Ends after"]) == ("parallelism.tensor", "tiny/Model", "10 requests")
