"""Give damaged specs to the controller: each becomes a service, or is stalled with a reason, and none stops the loop.

python -m scripts.fuzz_controller [COUNT] [SEED]       # 10000 inputs by default; prints the seed of each failure
"""

from __future__ import annotations

import collections
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.controller.conftest import controlled_in
from tests.controller.mutate import damaged, outcome, sound_objects

_LONGEST = 5.0
"""Seconds of CPU that one input may take: other services wait for a worker meanwhile."""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seed = sys.argv[2] if len(sys.argv) > 2 else str(random.SystemRandom().randrange(2**32))
    objects = sound_objects()
    seen: collections.Counter[str] = collections.Counter()
    failures = 0
    with tempfile.TemporaryDirectory() as folder, controlled_in(Path(folder)) as controlled:
        empty = controlled.api.saved()
        for number in range(count):
            rng = random.Random(f"{seed}-{number}")  # noqa: S311
            item = damaged(rng.choice(objects), objects, rng)
            controlled.api.restore(empty)
            controlled.restart()
            start = time.process_time()
            try:
                seen[outcome(controlled, item)] += 1
            except Exception:
                failures += 1
                shown = json.dumps({"name": item["metadata"]["name"], "spec": item["spec"]})[:1500]
                sys.stdout.write(f"input {seed}-{number}: {shown}\n{traceback.format_exc()}\n")
            if time.process_time() - start > _LONGEST:
                failures += 1
                sys.stdout.write(f"input {seed}-{number} took {time.process_time() - start:.1f} s\n")
            if failures >= 20:
                break
    sys.stdout.write(f"{sum(seen.values())} inputs of seed {seed}, {failures} failures: {dict(seen)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
