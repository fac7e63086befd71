"""Plan damaged configs with odd flags until something breaks: a plan or a clear refusal is right, a traceback is not.

python scripts/fuzz_plan.py [COUNT] [SEED]       # 100000 inputs by default; prints the seed of each failure
"""

from __future__ import annotations

import collections
import json
import random
import resource
import sys
import time
import traceback

from rayllm_ctl.catalog import gpus
from rayllm_ctl.catalog.engines import engine_versions
from tests.planner.mutate import damaged, outcome, service, sound_configs

_LONGEST = 5.0
"""Seconds of CPU that one input may take; a damaged number must not make the planner count to it."""

_MEMORY = 3 * 2**30
"""Bytes of address space for the whole run: what would take more must fail here and not take the machine with it."""


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    configs = sound_configs()
    kinds = tuple(gpus.load_gpus())
    seen: collections.Counter[str] = collections.Counter()
    failures = 0
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")  # noqa: S311
        config, asked = damaged(rng.choice(configs), rng), service(rng, kinds)
        start = time.process_time()
        try:
            seen[outcome(config, asked, rng.choice(engine_versions()))] += 1
        except Exception:
            failures += 1
            sys.stdout.write(f"input {seed}-{number}: {json.dumps(config)[:400]}\n{asked}\n{traceback.format_exc()}\n")
        if time.process_time() - start > _LONGEST:
            failures += 1
            sys.stdout.write(
                f"input {seed}-{number} took {time.process_time() - start:.1f} s: {json.dumps(config)[:400]}\n"
            )
        if failures >= 20:
            break
    sys.stdout.write(f"{sum(seen.values())} inputs of seed {seed}, {failures} failures: {dict(seen)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
