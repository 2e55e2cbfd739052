"""Leases in time: they last while they are renewed, and never for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker.threads import DiskThreads
from odradek.broker.timers import Timers
from odradek.broker.topics.segment_leases import SegmentLeases
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.storage.files import DISK
from odradek.storage.leased_files import Extent
from odradek.tests.support.fakes.clock import FakeClock


class Leases:
    """Leases of nothing in particular, on a clock that a test moves."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.removed: list[Path] = []
        threads = DiskThreads(self.timers, self.clock)
        self.all = SegmentLeases(2, 1000, 2500, self.clock, self.timers, threads, DISK, self.removed.extend)
        self.directory = directory / "t-0"

    async def grant(self) -> int:
        return (await self.all.grant(self.directory, Extent((), 0), "orders")).id

    def go_on(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.fire_due()


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    return Leases(tmp_path)


async def test_a_lease_that_nobody_renews_expires(leases: Leases) -> None:
    await leases.grant()
    leases.go_on(999)
    assert len(leases.all) == 1
    leases.go_on(1)
    assert len(leases.all) == 0
    assert len(leases.removed) == 1
    assert leases.removed[0].name.startswith("t-0.lease")


async def test_a_lease_lasts_while_it_is_renewed_but_not_for_ever(leases: Leases) -> None:
    number = await leases.grant()
    for passed_ms, expected in ((900, 1000), (900, 700), (200, 500)):
        leases.go_on(passed_ms)
        assert leases.all.renew(number) == expected
    leases.go_on(500)
    with pytest.raises(KafkaError) as failed:
        leases.all.renew(number)
    assert failed.value.code is ErrorCode.RESOURCE_NOT_FOUND
    assert len(leases.removed) == 1


async def test_a_lease_that_has_ended_does_not_end_again(leases: Leases) -> None:
    number = await leases.grant()
    leases.all.end(number)
    leases.go_on(10_000)
    assert len(leases.removed) == 1
    with pytest.raises(KafkaError):
        leases.all.end(number)


async def test_no_more_than_so_many(leases: Leases) -> None:
    await leases.grant()
    await leases.grant()
    with pytest.raises(KafkaError) as failed:
        await leases.grant()
    assert failed.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
