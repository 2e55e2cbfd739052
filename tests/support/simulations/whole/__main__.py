"""Runs seeds and planted faults: `make simulate SEEDS=100`, `make planted`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .planted import PLANTS, find
from .run import run, shortest


def main() -> int:
    """Run what the command line says; return its status."""
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("what", choices=("seeds", "planted"))
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="so many brokers; without it one and three in turns")
    options = parser.parse_args()
    if options.what == "planted":
        return _planted(options.seeds)
    return _seeds(range(options.first, options.first + options.seeds), options.nodes)


def _seeds(seeds: range, nodes: int | None) -> int:
    covered: Counter[str] = Counter()
    began_s, virtual_s, failed = time.process_time(), 0.0, 0
    for seed in seeds:
        result = run(seed, nodes or (1, 3)[seed % 2])
        covered += result.covered
        virtual_s += result.virtual_s
        if result.violations:
            failed += 1
            print(shortest(seed, result.nodes).report(), flush=True)
    took_s = time.process_time() - began_s
    for name, count in sorted(covered.items()):
        print(f"{name:<40} {count:>8}")
    print(
        f"{len(seeds)} seeds, {failed} failed; {took_s / len(seeds):.1f} CPU-seconds and "
        f"{virtual_s / len(seeds):.0f} virtual seconds a seed; {len(seeds) / took_s:.2f} seeds a second"
    )
    return 1 if failed else 0


def _planted(most_seeds: int) -> int:
    missed = 0
    for plant in PLANTS:
        found = find(plant, most_seeds)
        missed += found is None
        seeds = "not found" if found is None else f"{found[0]} seeds"
        print(f"{seeds:>10}  {plant.what}: {found[1].violations[0][:150] if found else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
