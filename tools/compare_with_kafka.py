"""Send the same requests to two brokers and print where the responses differ: A is Apache Kafka, B is Odradek.

    python tools/compare_with_kafka.py A_HOST:PORT B_HOST:PORT [--only SUBJECT] [--case TEXT] [--messages]
    python tools/compare_with_kafka.py A_HOST:PORT --show           # just what A answers, decoded
    python tools/compare_with_kafka.py A_HOST:PORT --answers        # each answer as it is compared: a golden file

The comparison leaves out ids that a broker makes up, addresses, clocks, and the wording of error messages (but not
whether there is one; `--messages` compares the words too). Topics and groups get a prefix of this run, so brokers need
not be fresh.
Exit status 1 if something differs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections import Counter
from typing import Any
from uuid import UUID

from wire.connection import Exchange, Wire

SUBJECTS = (
    "cluster", "acls", "quotas", "topics", "recreation", "configs", "features", "produce", "verification", "fetch",
    "groups", "garbage",
)  # fmt: skip
# Only for brokers with the configs that the module names.
SECURED = ("access",)
MADE_UP = {
    "TopicId", "ClusterId", "Host", "Port", "Rack", "MemberId", "Leader", "ProducerId", "SessionId", "LogAppendTimeMs",
    "ClientHost", "LogDir",
}  # fmt: skip
NUMBERS = {"SessionId", "ProducerId", "LogAppendTimeMs", "FinalizedFeaturesEpoch", "UsableBytes", "TotalBytes"}
# What stands for no id.
NO_ID = str(UUID(int=0))
WORDS = {"ErrorMessage", "Documentation"}
# Whose order means nothing: compared by the first of these names that they have.
SORTED_BY = ("Name", "GroupId", "ResourceName", "ApiKey", "MemberId", "PartitionIndex")
MAX_LINES = 20

# Case, API, version, how often the same was asked before.
Key = tuple[str, str, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("addresses", nargs="+", metavar="HOST:PORT")
    parser.add_argument("--only", action="append", choices=(*SUBJECTS, *SECURED))
    parser.add_argument("--case", default="", help="only cases whose name or API contains this")
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--answers", action="store_true")
    options = parser.parse_args()
    prefix = f"cmp{time.time_ns() // 1_000_000 % 10_000_000}"
    runs = [ask(address, options.only or SUBJECTS, prefix) for address in options.addresses]
    runs = [{key: exchange for key, exchange in run.items() if options.case in f"{key[1]} {key[0]}"} for run in runs]
    if options.answers:
        print_answers(runs[0], prefix)
    elif options.show:
        show(runs[0])
    elif differences(*runs, prefix, options.messages):
        sys.exit(1)


def print_answers(run: dict[Key, Exchange], prefix: str) -> None:
    """Print case, API, version and answer, without what differs between two brokers. Repeated answers are "same as"."""
    first: dict[str, str] = {}
    for (case, api, version, _), exchange in run.items():
        answer = exchange.outcome
        if answer == "answered":
            answer = json.dumps(settle(exchange.body, prefix, False)).replace(prefix, "P")
        shown = first.setdefault(f"{api} {version} {answer}", case)
        print(case, api, version, answer if shown == case else f"same as {shown}", sep="\t")


def ask(address: str, subjects: list[str], prefix: str) -> dict[Key, Exchange]:
    run: dict[Key, Exchange] = {}
    asked: Counter[tuple[str, str, int]] = Counter()
    for subject in subjects:
        wire = Wire(address, prefix)
        try:
            importlib.import_module(f"wire.cases.{subject}").run(wire)
        except Exception as error:  # noqa: BLE001 -- one subject that breaks must not hide the others
            last = wire.exchanges[-1] if wire.exchanges else None
            where = f"{last.api} v{last.version} '{last.case}' ({last.outcome})" if last else "set-up"
            print(f"!! {address}, {subject}: stopped after {where}: {error!r}", file=sys.stderr)
        for exchange in wire.exchanges:
            question = exchange.case, exchange.api, exchange.version
            run[(*question, asked[question])] = exchange
            asked[question] += 1
        wire.close()
    return run


def differences(ours: dict[Key, Exchange], theirs: dict[Key, Exchange], prefix: str, messages: bool) -> int:
    """Print the differences, each only once for several versions. Return how many exchanges differ."""
    found: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    not_asked = [key for key in ours if key not in theirs]
    for (case, api, version, times), real in ours.items():
        other = theirs.get((case, api, version, times))
        if other is None:
            continue
        if real.outcome != other.outcome:
            lines = (f"A {real.outcome} {brief(real.body)}, B {other.outcome} {brief(other.body)}",)
        else:
            lines = tuple(compare("", settle(real.body, prefix, messages), settle(other.body, prefix, messages)))
        if lines:
            found.setdefault((api, case, lines), []).append(version)
    for (api, case, lines), versions in found.items():
        print(f"{api} v{','.join(map(str, sorted(set(versions))))}: {case}")
        print("".join(f"    {line}\n" for line in lines[:MAX_LINES]), end="")
        if len(lines) > MAX_LINES:
            print(f"    ... and {len(lines) - MAX_LINES} more")
    count = sum(len(versions) for versions in found.values())
    print(f"{count} of {len(ours)} exchanges differ, {len(not_asked)} were not asked of B")
    return count + len(not_asked)


def compare(path: str, real: Any, other: Any) -> Any:
    """Return lines with the differences of two values."""
    if isinstance(real, dict) and isinstance(other, dict):
        for name in sorted(real.keys() | other.keys(), key=str):
            yield from compare(f"{path}.{name}".lstrip("."), real.get(name, "(absent)"), other.get(name, "(absent)"))
    elif isinstance(real, list) and isinstance(other, list) and len(real) == len(other):
        for index, (a, b) in enumerate(zip(real, other, strict=True)):
            name = next(
                (str(a[key]) for key in SORTED_BY if isinstance(a, dict) and isinstance(a.get(key), str)), index
            )
            yield from compare(f"{path}[{name}]", a, b)
    elif isinstance(real, list) and isinstance(other, list):
        yield f"{path}: A has {len(real)}, B {len(other)}: {brief(real)} / {brief(other)}"
    elif real != other:
        yield f"{path}: A {brief(real)}, B {brief(other)}"


def settle(value: Any, prefix: str, messages: bool, name: str = "") -> Any:
    """Return the value without the parts that may differ between two brokers."""
    if isinstance(value, dict):
        return {key: settle(inner, prefix, messages, key) for key, inner in value.items()}
    if isinstance(value, list):
        inner = [settle(item, prefix, messages, name) for item in value if not is_foreign(item, prefix)]
        return sorted(inner, key=sort_key)
    if name in NUMBERS:
        is_none = value == -1 or (value == 0 and name == "SessionId")
        return value if is_none else "some"
    if name in MADE_UP or (name in WORDS and not messages):
        return "some" if value and value != NO_ID else value
    return value.hex() if isinstance(value, bytes) else value


def is_foreign(item: Any, prefix: str) -> bool:
    """Tell whether a group or topic comes from another run."""
    if not isinstance(item, dict):
        return False
    name = item.get("GroupId", item.get("Name") if "Partitions" in item else None)
    is_left_over = name == "" and "Members" not in item and "ProtocolType" in item
    return is_left_over or (isinstance(name, str) and name.startswith(("cmp", "w-")) and not name.startswith(prefix))


def sort_key(item: Any) -> tuple[str, ...]:
    if not isinstance(item, dict):
        return ("",)
    return *(f"{item.get(key)!s:>12}" for key in SORTED_BY), json.dumps(item, sort_keys=True)


def brief(value: Any) -> str:
    text = json.dumps(value, default=lambda data: data.hex())
    return text if len(text) <= 160 else f"{text[:150]}... ({len(text)})"


def show(run: dict[Any, Exchange]) -> None:
    for (case, api, version, _), exchange in run.items():
        body = json.dumps(exchange.body, default=lambda data: data.hex())
        print(f"{api} v{version}: {case}: {exchange.outcome} {body[:1500]}")


if __name__ == "__main__":
    main()
