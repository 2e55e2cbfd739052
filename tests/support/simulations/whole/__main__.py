"""Runs seeds and planted faults: `make simulate SEEDS=100`, `make planted`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path

from odradek.broker.metrics.request_counts import api_name
from odradek.broker.network.routes import ROUTES

from .faults import MANY
from .planted import PLANTS, find
from .run import expect_many_runs, nodes_of, run, shortest

_PAGE = Path(__file__).parents[4] / "docs" / "simulation.md"
_BEGIN, _END = "<!-- planted -->", "<!-- /planted -->"
_HEAD = ("| mistake | brokers | seeds |", "|---|---|---|")


def main() -> int:
    """Run what the command line says; return its status."""
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("what", choices=("seeds", "planted"))
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="so many brokers; without it one and three in turns")
    options = parser.parse_args()
    expect_many_runs()
    if options.what == "planted":
        return _planted(options.seeds)
    return _seeds(range(options.first, options.first + options.seeds), options.nodes)


def _seeds(seeds: range, nodes: int | None) -> int:
    covered: Counter[str] = Counter()
    began_s, virtual_s, failed = time.process_time(), 0.0, 0
    for seed in seeds:
        result = run(seed, nodes or nodes_of(seed))
        covered += result.covered
        virtual_s += result.virtual_s
        if result.violations:
            failed += 1
            print(shortest(seed, result.nodes).report(), flush=True)
    took_s = time.process_time() - began_s
    _tell_covered(covered)
    print(
        f"{len(seeds)} seeds, {failed} failed; {took_s / len(seeds):.1f} CPU-seconds and "
        f"{virtual_s / len(seeds):.0f} virtual seconds a seed; {len(seeds) / took_s:.2f} seeds a second"
    )
    return 1 if failed else 0


def _tell_covered(covered: Counter[str]) -> None:
    """Print how often each handler was asked, each kind of fault came and two kinds met, and what never did."""
    for name, count in sorted(covered.items()):
        print(f"{name:<60} {count:>8}")
    kinds = sorted(set(MANY))
    wanted = {
        "handlers": {f"asked {api_name(each.key)}" for each in ROUTES},
        "kinds of faults": {f"fault {each}" for each in kinds},
        "pairs": {f"pair {one} & {other}" for one, other in combinations_with_replacement(kinds, 2)},
    }
    for what, names in wanted.items():
        missed = sorted(each.partition(" ")[2] for each in names - covered.keys())
        print(f"{len(names) - len(missed)} of {len(names)} {what}; never: {', '.join(missed) or 'none'}")


def _planted(most_seeds: int) -> int:
    """Look for each plant, and write the table of the page on the simulation."""
    rows, missed = list[str](), 0
    for plant in PLANTS:
        found = find(plant, most_seeds)
        missed += found is None
        seeds = f"not in {most_seeds}" if found is None else str(found[0])
        rows.append(f"| {plant.what} | {plant.nodes} | {seeds} |")
        print(f"{seeds:>10}  {plant.what}: {found[1].violations[0][:150] if found else ''}", flush=True)
    before, _, rest = _PAGE.read_text().partition(_BEGIN)
    _PAGE.write_text(f"{before}{_BEGIN}\n" + "\n".join((*_HEAD, *rows)) + f"\n{_END}{rest.partition(_END)[2]}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
