"""`/metrics/partitions`: offsets and sizes of every partition of this broker, in as many samples as that takes."""

from __future__ import annotations

from collections.abc import Iterator

from ..metrics.exposition import family
from ..topics.partition import Partition
from .scrape import Scraped


async def partition_page(scraped: Scraped) -> Iterator[str]:
    """Return the pieces of the page."""
    return _page(scraped.services.topics.partitions())


def _page(partitions: list[Partition]) -> Iterator[str]:
    yield from family(
        "odradek_partition_log_start_offset", ((key_of(each), each.log.log_start_offset) for each in online(partitions))
    )
    yield from family("odradek_partition_high_watermark", ((key_of(each), each.high_watermark) for each in partitions))
    yield from family(
        "odradek_partition_log_bytes", ((key_of(each), each.log.size_bytes) for each in online(partitions))
    )
    yield from family("odradek_partition_records_in_total", ((key_of(each), each.records_in) for each in partitions))


def key_of(partition: Partition) -> tuple[str, str]:
    """Return the labels of a partition."""
    return partition.topic, str(partition.index)


def online(partitions: list[Partition]) -> Iterator[Partition]:
    """Yield the partitions whose logs can be read at this moment: a disk may fail between two turns."""
    return (each for each in partitions if each.is_online)
