"""After a start that opens no log, the system reads the ends of the logs before the first appends need them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from odradek.broker import Broker, BrokerConfig
from odradek.storage.files import Disk, File
from odradek.storage.segments.segment_file import END_BYTES
from odradek.tests.support.raw import Raw, batch_of


class Noting(Disk):
    """Notes what the system is asked to read ahead."""

    def __init__(self) -> None:
        self.asked: dict[Path, int] = {}

    def will_need(self, file: File, position: int) -> None:
        self.asked[file.path] = position
        super().will_need(file, position)


async def test_the_ends_of_logs_that_a_start_has_not_opened_are_read_ahead(config: BrokerConfig) -> None:
    first = Noting()
    async with Broker(config, disk=first) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", partitions=2)
        for _ in range(2):
            await raw.produce("t", batch_of(b"x" * (END_BYTES // 2)))
        await raw.produce("t", batch_of(b"y"), partition=1)
    assert first.asked == {}, "nothing was there"
    again = Noting()
    async with Broker(replace(config), disk=again) as broker:
        await broker.services.background.read_ahead.wait_idle()
        folder = Path(config.log_dirs[0])
        names = {f"{'0' * 20}.{end}" for end in ("log", "index", "timeindex")}
        assert set(again.asked) == {folder / f"t-{number}" / name for number in range(2) for name in names}
        large = folder / "t-0" / f"{'0' * 20}.log"
        assert again.asked[large] == large.stat().st_size - END_BYTES > 0
