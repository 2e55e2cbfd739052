"""What each API answers a client that may do nothing, one thing or everything is what a Kafka answers.

tests/golden/kafka-4.3.1/access.tsv has the error codes of a Kafka with its StandardAuthorizer, which was started as
tools/wire/cases/access.py says: python tools/compare_with_kafka.py HOST:PORT --only access --codes
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.principals import secured

ROOT = Path(__file__).parents[4]
# A topic that a Metadata creates is there at once; Kafka says that there is none yet.
INTENDED = "created\tMetadata"


async def test_every_api_answers_as_kafka_does(config: BrokerConfig) -> None:
    config = replace(secured(config), super_users="", allow_everyone_if_no_acl_found=True)
    async with Broker(config) as broker:
        command = ["compare_with_kafka.py", broker.address, "--only", "access", "--codes"]
        ran = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT / "tools", stdout=asyncio.subprocess.PIPE
        )
        printed = (await ran.communicate())[0].decode().splitlines()
    kafkas = (ROOT / "tests" / "golden" / "kafka-4.3.1" / "access.tsv").read_text().splitlines()
    assert len(printed) == len(kafkas) > 4_300
    different = [(ours, theirs) for ours, theirs in zip(printed, kafkas, strict=True) if ours != theirs]
    assert [each for each in different if INTENDED not in each[1]] == []
    assert len(different) == 2
