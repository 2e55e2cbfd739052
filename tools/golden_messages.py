"""Collect Kafka's message specifications from its jars into one JSON file for the tests.

    python tools/golden_messages.py kafka-clients-4.4.0.jar kafka-group-coordinator-4.4.0.jar \\
        kafka-transaction-coordinator-4.4.0.jar kafka-share-coordinator-4.4.0.jar \\
        > tests/golden/kafka-4.4.0/requests-and-responses.json
    python tools/golden_messages.py kafka-clients-3.9.1.jar --only Produce,Fetch,ListOffsets,OffsetCommit,OffsetFetch,\\
        LeaderAndIsr,StopReplica,UpdateMetadata,ControlledShutdown,AlterPartition \\
        > tests/golden/kafka-3.9.1/older-versions.json

One message a line, by name. Comments and descriptions are left out: what remains are the facts of the wire.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from typing import Any

FOLDER = "common/message/"

# The kinds of message that clients and group coordinators exchange or store. Those among brokers are not ours.
TYPES = {"request", "response", "header", "data", "coordinator-key", "coordinator-value"}

MESSAGE_FACTS = ("apiKey", "type", "name", "validVersions", "flexibleVersions", "fields", "commonStructs")
FIELD_FACTS = ("name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable")
FIELD_FACTS += ("flexibleVersions", "fields")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jars", nargs="+")
    parser.add_argument("--only", help="APIs, by name and with commas between", default="")
    options = parser.parse_args()
    only = {api + kind for api in options.only.split(",") if api for kind in ("Request", "Response")}
    found: dict[str, Any] = {}
    for jar in options.jars:
        found.update(specifications(jar))
    lines = [
        f"{json.dumps(name)}: {json.dumps(found[name], separators=(',', ':'))}"
        for name in sorted(found)
        if not only or name in only
    ]
    print("{\n" + ",\n".join(lines) + "\n}")


def specifications(jar: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with zipfile.ZipFile(jar) as archive:
        for path in archive.namelist():
            if path.startswith(FOLDER) and path.endswith(".json"):
                specification = json.loads(without_comments(archive.read(path).decode()))
                if specification["type"] in TYPES and "fields" in specification:
                    found[specification["name"]] = stripped(specification, MESSAGE_FACTS)
    return found


def without_comments(text: str) -> str:
    """Return the text without comments, which begin with // outside of strings."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda match: match[1] or "", text)


def stripped(specification: dict[str, Any], facts: tuple[str, ...]) -> dict[str, Any]:
    kept = {fact: specification[fact] for fact in facts if fact in specification}
    for nested, nested_facts in (("fields", FIELD_FACTS), ("commonStructs", ("name", "versions", "fields"))):
        if nested in kept:
            kept[nested] = [stripped(part, nested_facts) for part in kept[nested]]
    return kept


if __name__ == "__main__":
    main()
