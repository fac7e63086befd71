#!/usr/bin/env python3
"""Bring the prices of the large clouds up to date.

    git clone --filter=blob:none https://github.com/aws/karpenter-provider-aws
    git clone --filter=blob:none https://github.com/Azure/karpenter-provider-azure
    git clone --filter=blob:none https://github.com/cloudpilot-ai/karpenter-provider-gcp
    python scripts/gpu_prices.py karpenter-provider-aws karpenter-provider-azure karpenter-provider-gcp

Each clone has a generated table of on-demand prices by region and machine type. The price of a GPU is that of the
machine in nodes.json, and of the region, where it costs the least per GPU. The list of a cloud that is read replaces
the one in rayllm_ctl/catalog/data/prices.json; those of other clouds are written by hand and stay.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "catalog" / "data"

Prices = dict[str, list[float]]
"""USD per hour in every region, by machine type."""


def go_prices(text: str) -> Prices:
    """Prices in a table of Go's, as Karpenter's providers for AWS and Azure have it."""
    found: Prices = {}
    for machine, price in re.findall(r'"([\w.-]+)":\s*(\d+\.\d+)', text):
        found.setdefault(machine, []).append(float(price))
    return found


def gcp_prices(text: str) -> Prices:
    found: Prices = {}
    for region in json.loads(text)["prices"].values():
        for machine, price in region["on_demand"].items():
            found.setdefault(machine, []).append(price)
    return found


class Table(NamedTuple):
    """Where the prices of a cloud are: the repository, its file, and how the file is read."""

    cloud: str
    repository: str
    file: str
    read: Callable[[str], Prices]


TABLES = (
    Table("aws", "aws/karpenter-provider-aws", "pkg/providers/pricing/zz_generated.pricing_aws.go", go_prices),
    Table("azure", "Azure/karpenter-provider-azure", "pkg/providers/pricing/zz_generated.pricing.go", go_prices),
    Table("gcp", "cloudpilot-ai/karpenter-provider-gcp", "pkg/providers/pricing/initial-prices.json", gcp_prices),
)


def git(clone: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(clone), *arguments], check=True, capture_output=True, text=True).stdout


def price_list(clone: Path, nodes: Mapping[str, Mapping[str, list[list[Any]]]]) -> tuple[str, dict[str, Any]]:
    """The cloud whose table `clone` has, and its list as prices.json holds it."""
    for table in TABLES:
        if git(clone, "ls-tree", "--name-only", "HEAD", table.file).strip():
            text = git(clone, "show", f"HEAD:{table.file}")
            commit, committed = git(clone, "log", "-1", "--format=%H %cs", "--", table.file).split()
            generated = re.search(r"generated at (\d{4}-\d\d-\d\d)", text)
            return table.cloud, {
                "date": generated[1] if generated else committed,
                "source": f"{table.repository}@{commit[:9]}",
                "prices": dict(cheapest(table.cloud, table.read(text), nodes)),
            }
    raise SystemExit(f"{clone}: none of {', '.join(table.file for table in TABLES)}: has the table moved?")


def cheapest(
    cloud: str, prices: Prices, nodes: Mapping[str, Mapping[str, list[list[Any]]]]
) -> Iterator[tuple[str, dict[str, float]]]:
    """By GPU: the lowest price of one in any machine that `cloud` has for it."""
    for gpu, machines in nodes.items():
        found = [price / count for machine, count, *_ in machines.get(cloud, ()) for price in prices.get(machine, ())]
        if found:
            yield gpu, {cloud: round(min(found), 3)}


def dumped(lists: list[dict[str, Any]]) -> str:
    """prices.json with a GPU on each line."""
    text = json.dumps(lists, indent=2)
    return re.sub(r"\{\s+(\"[\w-]+\": [\d.]+)\s+\}", r"{\1}", text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", type=Path, nargs="+", help="git repositories as above")
    nodes = json.loads((DATA / "nodes.json").read_text(encoding="utf-8"))
    file = DATA / "prices.json"
    lists = {next(iter(next(iter(one["prices"].values())))): one for one in json.loads(file.read_text("utf-8"))}
    for clone in parser.parse_args().clones:
        cloud, found = price_list(clone, nodes)
        lists[cloud] = found
        sys.stdout.write(f"{cloud}: {len(found['prices'])} GPUs, {found['date']}\n")
    file.write_text(dumped(list(lists.values())), encoding="utf-8")


if __name__ == "__main__":
    main()
