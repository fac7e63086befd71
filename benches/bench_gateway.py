"""The gateway next to Ray's own ingress, paired in one run: what it adds to a request, and what it costs in throughput.

    python -m benches.bench_gateway [SECONDS]     # of throughput for each side, 40 by default

Both are applications of one Serve, behind its HTTP proxy, each with a model on the stand-in engine, which computes a
few answers at a time at the pace of a real one. The gateway has every step enabled (rate limits count in memory).
Requests alternate between the two, so that whatever else the machine does happens to both. Throughput is measured with
a busy model, and, three times as long, with a model that takes no time, where the ingress is what is busy; the limit
holds for both. At last a full queue has to turn requests away at once. Ray comes from the serving image's root file
system, which is made if it is not in the cache; the run happens inside it, without a network. Exit code 1 where the
gateway is not within its limits.
"""

from __future__ import annotations

import sys

from benches.inside import run

ENVIRONMENT = {
    "RAYLLM_VLLM_ENGINE_CLS": "rayllm_standin.engine:StandInEngine",
    "RAYLLM_STANDIN_TOKENS_PER_SECOND": "200",
}

if __name__ == "__main__":
    seconds = sys.argv[1] if len(sys.argv) > 1 else "40"
    sys.exit(run(["gateway_inside.py"], seconds, ENVIRONMENT))
