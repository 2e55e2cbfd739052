"""The memory of a broker whose groups come and go over SASL_SSL: it reaches a level, and stays there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trustme", reason="the certificates are trustme's")

from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.tests.support.security.sasl import PASSWORD, USER
from odradek.tests.support.security.strangers import Guarded

RECORDS, MEMBERS, PARTITIONS = 20_000, 12, 6
# A run closes some forty connections. Those that stay take 10 MiB a run.
WARM_UP, RUNS = 3, 8
MAX_GROWTH = 12 << 20
WAIT_S = 120


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    process = Guarded(
        tmp_path,
        **{
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,AUTH:SASL_SSL,TLS:SSL,MTLS:SSL",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    process.start()
    yield process
    process.close()


async def read_by_a_group(options: dict[str, Any], run: int) -> None:
    """Write records, and have a new group read all that there are."""
    async with Producer(**options) as producer:
        for number in range(RECORDS):
            await producer.send("t", b"x" * 1000, key=b"%d" % number)
    left, is_done = RECORDS * (run + 1), asyncio.Event()

    async def read() -> None:
        nonlocal left
        async with Consumer("t", group_id=f"group-{run}", auto_offset_reset="earliest", **options) as consumer:
            while not is_done.is_set():
                left -= sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))
                if left <= 0:
                    is_done.set()

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(read() for _ in range(MEMBERS)))


async def test_groups_over_tls_leave_nothing_in_the_heap(guarded: Guarded) -> None:
    doors = guarded.doors
    async with Admin(bootstrap_servers=doors.at("PLAINTEXT")) as admin:
        await admin.create_topics([NewTopic("t", PARTITIONS)])
    options = {
        "bootstrap_servers": doors.at("AUTH"),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(doors.authority.path),
    }
    levels: list[int] = []
    for run in range(RUNS):
        await read_by_a_group(options, run)
        levels.append(guarded.memory_bytes())
    assert levels[-1] - levels[WARM_UP - 1] < MAX_GROWTH, [each >> 20 for each in levels]
