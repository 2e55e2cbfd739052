"""What each API answers a client that may do nothing, one thing or everything is what a Kafka answers.

tests/golden/kafka-4.4.0/access.tsv has the answers of a Kafka with its StandardAuthorizer, which was started as
tools/wire/cases/access.py says: python tools/compare_with_kafka.py HOST:PORT --only access --answers
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.background import retention
from odradek.tests.support.security.principals import secured

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.4.0" / "access.tsv"
_IN_WORDS = "ErrorMessage: Kafka None, Odradek some"
# Where an answer differs from Kafka's: by the API, the start of the field's path.
INTENDED = {
    # Odradek says in words what is wrong where Kafka has the code alone.
    "CreatePartitions": ("Results.ErrorMessage",),
    "Produce": ("Responses.PartitionResponses.ErrorMessage",),
    "ShareFetch": (_IN_WORDS, "Responses.Partitions.ErrorMessage", "Responses.Partitions.AcknowledgeErrorMessage"),
    "ShareAcknowledge": (_IN_WORDS, "Responses.Partitions.ErrorMessage"),
    # Odradek has no configs of groups of Kafka Streams.
    "DescribeConfigs": ("Results.ErrorMessage", "Results.Configs: "),
    # Kafka keeps min.insync.replicas of a new cluster as a config of the cluster.
    "CreateTopics": ("Topics.Configs.ConfigSource",),
    # A share group of this Kafka has begun nowhere so early.
    "DescribeShareGroupOffsets": ("Groups.Topics.Partitions.StartOffset", "Groups.Topics.Partitions.Lag"),
    # Kafka tells the id of a topic that is denied.
    "AlterShareGroupOffsets": ("Responses.TopicId: Kafka some, Odradek 00000000",),
    # A topic that a Metadata creates is there at once; Kafka says that there is none yet.
    "Metadata": (
        "Topics.ErrorCode: Kafka 3, Odradek 0", "Topics.Partitions: Kafka []", "Topics.TopicId: Kafka 00000000",
    ),
}  # fmt: skip

Answers = dict[tuple[str, str, str, int], Any]


async def test_every_api_answers_as_kafka_does(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    # The records have times of 2023: on a slow machine retention would delete them during the requests.
    monkeypatch.setattr(retention, "FIRST_CHECK_MS", 3_600_000)
    config = replace(secured(config), super_users="", allow_everyone_if_no_acl_found=True)
    config = replace(config, log_retention_check_interval_ms=3_600_000)
    async with Broker(config) as broker:
        command = ["compare_with_kafka.py", broker.address, "--only", "access", "--answers"]
        ran = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT / "tools", stdout=asyncio.subprocess.PIPE
        )
        ours = answers((await ran.communicate())[0].decode())
    kafkas = answers(GOLDEN.read_text())
    assert ours.keys() == kafkas.keys()
    assert len(kafkas) > 4_500
    found = {key: list(differences(kafkas[key], ours[key])) for key in kafkas}
    different = [
        (*key, line) for key, lines in found.items() for line in lines if not line.startswith(INTENDED.get(key[1], ()))
    ]
    assert not different, "\n".join(map(str, different))


def answers(text: str) -> Answers:
    """Return the answers of a golden file by case, API, version and how often the same was asked before."""
    found: Answers = {}
    first: dict[tuple[str, str, str], str] = {}
    asked: Counter[tuple[str, str, str]] = Counter()
    for line in text.splitlines():
        case, api, version, answer = line.split("\t")
        if answer.startswith("same as "):
            answer = first[answer.removeprefix("same as "), api, version]
        times = asked[case, api, version] if case in ("grant", "revoke", "set-up") else 0
        asked[case, api, version] += 1
        first.setdefault((case, api, version), answer)
        found[case, api, version, times] = json.loads(answer) if answer.startswith("{") else answer
    return found


def differences(kafka: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two answers differ."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in kafka.keys() | ours.keys():
            yield from differences(kafka.get(name), ours.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for one, other in zip(kafka, ours, strict=True):
            yield from differences(one, other, path)
    elif kafka != ours:
        yield f"{path}: Kafka {kafka}, Odradek {ours}"
