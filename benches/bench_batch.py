"""Batch jobs next to a pipeline of ray.data.llm written by hand, paired in one run: rows per second, and memory.

    python -m benches.bench_batch [ROWS]     # of each run for throughput, 2000 by default

Both ask vLLM on the CPU about the same rows of a JSONL file, with the same engine settings, and write JSONL. Runs
alternate, after a run of each that is not counted. Time counts from when the engine is ready, which either side's
engine stage records, to when the last file is written, so that neither its start nor the look at the input counts.
The memory of the driver is measured with few and with many rows and a stand-in for the engine, which takes no time.
Ray comes from the serving image's root file system, which is made if it is not in the cache; the run happens inside it,
without a network. Exit code 1 where a batch job is not within its limits.
"""

from __future__ import annotations

import sys

from benches.inside import run

if __name__ == "__main__":
    rows = sys.argv[1] if len(sys.argv) > 1 else "2000"
    sys.exit(run(["batch_inside.py", "batch_stages.py"], rows, {}))
