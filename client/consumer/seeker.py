"""Positions and offsets of a consumer: the part of `Consumer` that seeks, pauses, commits and looks offsets up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ..core.arguments import check_apart, check_list, check_mapping, check_partitions, checked_offset
from ..core.clock import monotonic_ms
from ..core.log_offsets import list_offsets
from ..core.metrics import Metric
from ..errors import CommitFailed, NotAssigned
from ..record import (
    EARLIEST,
    LATEST,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from .explanation import Explanation
from .offset_commits import taken_away
from .positions import PartitionState
from .subscriber import Subscriber


class Seeker(Subscriber):
    """Knows and moves the positions of a consumer, and the offsets of its group."""

    # -- Positions

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer has now."""
        return self._positions.partitions()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset(self._topics)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record; wait until it is known (`default_api_timeout_ms`)."""
        session = self._running()
        state = self._state(partition)
        try:
            async with asyncio.timeout(self._cluster_options.default_api_timeout_ms / 1000):
                while state.position is None:
                    if state.error is not None:
                        raise state.error
                    await session.signals.wait_for_positions()
                    self._running()
                    state = self._state(partition)
        except TimeoutError:
            text = f"the position of {state} was not found in time"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the partition's high watermark at the last fetch, None before the first."""
        watermark = self._state(partition).high_watermark
        return None if watermark < 0 else watermark

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from `offset`. With its leader epoch, a truncated log is noticed (KIP-320). Raises NotAssigned."""
        to = checked_offset(offset)
        self._state(partition).move_to(to.offset, to.leader_epoch)
        self._positions_changed()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the first record of these partitions, of all assigned ones if none is given."""
        check_apart("seek_to_beginning", partitions)
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue behind the last record of these partitions, of all assigned ones if none is given."""
        check_apart("seek_to_end", partitions)
        self._seek_to(LATEST, partitions)

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._positions.partitions():
            self._state(partition).reset_to(timestamp)
        self._positions_changed()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`.

        A rebalance keeps the pause of a partition that this consumer has after it, and forgets it with the partition.
        """
        check_apart("pause", partitions)
        self._return_run(partitions)
        for partition in partitions:
            self._positions.pause(self._state(partition), paused=True)
        self._positions_changed()  # what they hold counts no more: others may be fetched

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        check_apart("resume", partitions)
        for partition in partitions:
            self._positions.pause(self._state(partition), paused=False)
        self._positions_changed()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(state.partition for state in self._positions if state.paused)

    def _state(self, partition: TopicPartition) -> PartitionState:
        check_partitions("this call", [partition])
        state = self._positions.get(partition)
        if state is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return state

    def _positions_changed(self) -> None:
        if self._session is not None:
            self._session.positions_changed()

    # -- Offsets of the group and of the log

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets (of the next records to read), or all positions: all returned records are processed.

        While `consume` or `streams` read, commit what is processed instead: in each partition up to the first record
        that is not. A record of a stream is processed when the stream is asked for the next one.

        Raises CommitFailed if the group has gone on without this member, or partitions were taken away after the last
        poll returned their records. Raises GroupRequired without a `group_id`.
        """
        session = self._running()
        session.committed_offsets()
        if offsets is not None:
            check_mapping("commit", offsets, "TopicPartition and the offset of the next record to read")
        lost = session.polls.lost()
        if lost and (offsets is None or not offsets.keys().isdisjoint(lost)):
            raise taken_away(lost)
        if offsets is None:
            by_record, positions = session.polls.by_record is not None, self._positions
            wanted = positions.processed_offsets() if by_record else positions.returned_offsets()
        else:
            wanted = {partition: checked_offset(offset) for partition, offset in offsets.items()}
        try:
            await session.commits.commit(wanted)
        except CommitFailed:
            if session.membership is not None:
                session.membership.request_rejoin()
            raise

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group, for a producer's `send_offsets`.

        Raises CommitFailed if partitions were taken away after the last poll returned their records, GroupRequired.
        """
        session = self._running()
        metadata = session.group_metadata()
        if lost := session.polls.lost():
            raise taken_away(lost)
        return metadata

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions, of all assigned ones if none is given."""
        check_apart("committed", partitions)
        return await self._running().committed_offsets().fetch(partitions or self._positions.partitions())

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        check_list("beginning_offsets", partitions)
        return await self._end_of_log(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; with read_committed the last stable offset."""
        check_list("end_offsets", partitions)
        return await self._end_of_log(partitions, LATEST)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time in each partition, None if there is none."""
        found = await list_offsets(self._running().cluster, times_ms, self._fetch_options.isolation_level)
        return {partition: None if at.offset < 0 else at for partition, at in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions. Raises UnknownTopic after `default_api_timeout_ms`."""
        info = await self._running().cluster.topic(topic)
        return [partition.partition for partition in info.partitions]

    async def _end_of_log(self, partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        timestamps = dict.fromkeys(partitions, end)
        found = await list_offsets(self._running().cluster, timestamps, self._fetch_options.isolation_level)
        return {partition: at.offset for partition, at in found.items()}

    # -- Seeing inside

    def metrics(self) -> list[Metric]:
        """Return what the consumer has counted since its start, under Kafka's names; nothing before the start."""
        session = self._session
        if session is None:
            return []
        client_id = self._cluster_options.client_id
        return list(session.counts.metrics(client_id, self._positions, monotonic_ms()))

    def explain(self) -> Explanation:
        """Return what is assigned with its lag, and what holds the consumer or its group's rebalance up.

        `print(consumer.explain())` shows it as text.
        """
        return self._running().explain()
