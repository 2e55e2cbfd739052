"""A compacted topic of a simulated cluster: the last value of each key stays, and what was deleted stays deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from odradek.client import Consumer, Producer, TopicPartition

from .history import History, Keyed
from .load import ATTEMPT_MS, Load

COMPACTED = "compacted"
# What brokers are like where they compact: internal topics have more than one segment, too.
BROKERS = {"log.cleaner.backoff.ms": "500", "log.roll.ms": "3000", "log.cleaner.min.cleanable.ratio": "0.01"}
_KEYS = 4
_PROOF = b"proof"


class KeyWriter(Load):
    """Sets keys and deletes them, one after the other."""

    _number = 0

    async def run(self) -> None:
        await self.until_over(self._write)

    async def _write(self) -> None:
        async with Producer(self.addresses, request_timeout_ms=ATTEMPT_MS, delivery_timeout_ms=20_000) as producer:
            while not self.is_over:
                self._number += 1
                key = b"key%d" % self.chance.randrange(_KEYS)
                value = None if self.chance.random() < 0.2 else b"%d" % self._number
                keyed = self.history.keyed[key]
                keyed.sent.add(value)
                offset = (await producer.send_and_wait(COMPACTED, value, key=key, partition=0)).offset
                if offset >= 0:
                    keyed.offset, keyed.value = offset, value
                self.history.counts["keys"] += 1
                await asyncio.sleep(self.chance.expovariate(3 + self.rate))


def configs_of_topic(nodes: int) -> dict[str, str]:
    """Return what the topic is like: nearly every record is in a segment that can be cleaned.

    Tombstones go soon where no follower may have been away for longer than they stay.
    """
    retention_ms = "1000" if nodes == 1 else "600000"
    configs = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    return configs | {"delete.retention.ms": retention_ms}


async def check_compaction(history: History, addresses: str) -> AsyncIterator[str]:
    """Read what is left, and check the last value of each key."""
    async with Producer(addresses) as producer:
        await producer.send_and_wait(COMPACTED, _PROOF, key=_PROOF, partition=0)
    found: dict[bytes, tuple[int, bytes | None]] = {}
    async with Consumer(bootstrap_servers=addresses, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(COMPACTED, 0)])
        while _PROOF not in found:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found |= {each.key or b"": (each.offset, each.value) for each in records}
    for key, keyed in sorted(history.keyed.items()):
        fault = _fault(keyed, found.get(key))
        if fault:
            yield f"{COMPACTED}: the last value of {key!r} is {keyed.value!r} (offset {keyed.offset}), and {fault}"


def _fault(keyed: Keyed, found: tuple[int, bytes | None] | None) -> str | None:
    """Return what is wrong with the last record of a key; None: nothing. Unanswered sends may come later."""
    if found is None:
        return None if keyed.value is None or None in keyed.sent else "it has no record"
    offset, value = found
    is_right = value == keyed.value if offset == keyed.offset else offset > keyed.offset and value in keyed.sent
    return None if is_right else f"it has {value!r} at {offset}"
