"""Write the responses of a broker, byte for byte, as golden files: one TSV per API, one line per exchange.

    python tools/capture_wire.py HOST:PORT [--out tests/golden/wire] [--only SUBJECT]

Meant for a fresh Apache Kafka 4.3.1: topics and groups are called w-*, so a second run on the same broker has
other responses. Columns: case, version, outcome (answered, closed, silent), request hex, response hex; frames with
headers, without their length.
"""

from __future__ import annotations

import argparse
import importlib
from collections import defaultdict
from pathlib import Path

from wire.connection import Exchange, Wire

SUBJECTS = ("cluster", "acls", "topics", "produce", "fetch", "groups", "garbage")
OUT = Path(__file__).parents[1] / "tests" / "golden" / "wire"
# A list of everything that a broker has: large, and different on every machine.
LEFT_OUT = {("DescribeConfigs", "all of a broker")}
LONGEST_FRAME_BYTES = 1_500
# So many cases of an API are kept at every version; the others only at their lowest and highest.
CASES_AT_EVERY_VERSION = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", choices=SUBJECTS)
    options = parser.parse_args()
    wire = Wire(options.address)
    for subject in [options.only] if options.only else SUBJECTS:
        importlib.import_module(f"wire.cases.{subject}").run(wire)
        print(f"{subject}: {len(wire.exchanges)} exchanges so far", flush=True)
    write(wire.exchanges, options.out)


def write(exchanges: list[Exchange], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    files = defaultdict[str, list[Exchange]](list)
    for exchange in exchanges:
        longest = max(len(exchange.request), len(exchange.response))
        if (exchange.api, exchange.case) not in LEFT_OUT and longest <= LONGEST_FRAME_BYTES:
            files[exchange.api].append(exchange)
    for api, found in files.items():
        lines = ["case\tversion\toutcome\trequest\tresponse"]
        lines += [f"{e.case}\t{e.version}\t{e.outcome}\t{e.request.hex()}\t{e.response.hex()}" for e in thinned(found)]
        (out / f"{api}.tsv").write_text("\n".join(lines) + "\n")


def thinned(exchanges: list[Exchange]) -> list[Exchange]:
    """Return exchanges with every version and every case, but not every pair of them."""
    versions = defaultdict[str, set[int]](set)
    cases = defaultdict[int, set[str]](set)
    kept: list[Exchange] = []
    for exchange in exchanges:
        versions[exchange.case].add(exchange.version)
    for exchange in exchanges:
        here = cases[exchange.version]
        if len(here) < CASES_AT_EVERY_VERSION:
            here.add(exchange.case)
        all_versions = versions[exchange.case]
        if exchange.case in here or exchange.version in (min(all_versions), max(all_versions)):
            kept.append(exchange)
    return kept


if __name__ == "__main__":
    main()
