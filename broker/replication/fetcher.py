"""A fetcher: it fetches from one leader the partitions that this broker follows there, and appends what it gets.

One request is under way at a time, in a fetch session. The leader's answer moves the high watermark and the log's start
here, too. An error of one partition delays that partition for replica.fetch.backoff.ms, a lost connection all of them.
A throttle delays partitions that are behind, as long as the rate is too high.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from zlib import crc32

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchResponse, PartitionData
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.records.errors import RecordError
from ...storage.errors import StorageError, has_no_room
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..topics.partition import Partition
from .fetch_session import FollowerSession, Key, Position
from .follower_log import FollowerLog
from .inter_broker import InterBroker
from .peer import Peer, PeerLost
from .throttle import Throttle

# Topic ids and the replica's broker epoch in a tag; what later versions have is of no use here.
FETCH_VERSION = 15
LIST_OFFSETS_VERSION = 5
# Partitions of one fetcher: a leader takes 10,000 values in a Fetch, and a partition may be its topic's only one.
MAX_FOLLOWED = 4_000
# Kinds of errors that a fetcher tells of.
MAX_REPORTED = 100
_LATEST = -1
_EARLIEST = -2
# The answers of a leader that has just changed, or that has not heard yet. They pass; nobody needs a line in the log.
_EXPECTED = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

_log = logging.getLogger(__name__)


class Following:
    """A partition that is fetched, in one leader epoch."""

    __slots__ = ("is_behind", "leader_epoch", "not_before_ms", "partition", "topic_id", "unflushed")

    def __init__(self, partition: Partition, topic_id: bytes, leader_epoch: int) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.not_before_ms = 0
        # Whether the leader had committed more than this log holds when it answered last.
        self.is_behind = True
        # What was appended last and needs an fsync before the leader is told of its end.
        self.unflushed: PartitionData | None = None

    @property
    def key(self) -> Key:
        """What names it in a fetch session."""
        return self.partition.topic, self.topic_id, self.partition.index

    @property
    def is_current(self) -> bool:
        """Whether the partition still follows in this epoch."""
        return self.partition.leader_epoch == self.leader_epoch and self.partition.is_online

    def position(self) -> Position:
        """Return where the log ends, as the leader is to know it."""
        log = self.partition.log
        # Records that are deleted only in memory come back after a crash, and this broker may lead then.
        start = min(log.start_on_disk, log.log_start_offset)
        return Position(log.log_end_offset, self.leader_epoch, log.epochs.latest, start)


class Fetcher:
    """The partitions that are fetched from one leader. `close` ends it."""

    def __init__(
        self,
        peer: Peer,
        config: BrokerConfig,
        clock: Clock,
        logs: FollowerLog,
        broker_epoch: Callable[[], int],
        delete_records: Callable[[Partition, int], None],
        throttle: Throttle,
    ) -> None:
        """`delete_records` lets the log of a partition begin at an offset."""
        self.peer = peer
        self._config = config
        self._clock = clock
        self._logs = logs
        self._broker_epoch = broker_epoch
        self._delete_records = delete_records
        self._throttle = throttle
        self._session = FollowerSession(config, config.node_id)
        self.following: dict[Key, Following] = {}
        self._changed = asyncio.Event()
        # Whether a request waits for the leader, and whether it was given up for another one.
        self._is_asking = self._is_given_up = False
        self._is_connected = True
        # The errors of this program that were logged with their tracebacks.
        self._reported: set[str] = set()
        self._task = asyncio.ensure_future(self._run())

    def add(self, following: Following) -> None:
        """Fetch a partition from now on; a request that waits at the leader is given up for it."""
        self.following[following.key] = following
        self._changed.set()
        if self._is_asking:
            self._is_given_up = True
            self.peer.give_up()

    def remove(self, key: Key) -> None:
        """Fetch a partition no longer."""
        self.following.pop(key, None)

    async def close(self) -> None:
        """End the task, and the connection."""
        self._task.cancel()
        self.peer.close()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- The loop --------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except Exception as error:  # noqa: BLE001 - logged; a broker must not cease to follow
                self._session.reset()
                self._report(error, f"a fetch from {self.peer.host}:{self.peer.port} has failed, and is repeated")
                await self._pause()

    async def _fetch_once(self) -> None:
        self._changed.clear()
        ready = self._ready()
        if not ready:
            await self._wait()
            return
        lost = [each for each in ready.values() if each.partition.log.lost_from is not None]
        if lost:
            # Before the leader takes the ends of their logs for what they hold.
            for each in lost:
                is_current = partial(self._is_current, each)
                await self._work_on(each, partial(self._logs.give_up_lost, each.partition, is_current))
            return
        if any(each.unflushed is not None for each in ready.values()):
            await self._flush_all(ready.values())
            return
        response = await self._fetch(ready)
        if response is not None:
            await self._take_all(ready, response)

    def _ready(self) -> dict[Key, Following]:
        now_ms = self._clock.monotonic_ms()
        gone = [key for key, each in self.following.items() if not each.is_current]
        for key in gone:
            del self.following[key]
        for each in self.following.values():
            if each.is_behind and each.not_before_ms <= now_ms and self._throttle.holds_back(*each.partition.place):
                each.not_before_ms = now_ms + max(self._config.replica_fetch_backoff_ms, 1)
        return {key: each for key, each in self.following.items() if each.not_before_ms <= now_ms}

    async def _wait(self) -> None:
        """Wait for a partition, or for the end of the shortest delay."""
        now_ms = self._clock.monotonic_ms()
        due = min((each.not_before_ms for each in self.following.values()), default=None)
        try:
            async with asyncio.timeout(None if due is None else max(due - now_ms, 1) / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _fetch(self, ready: dict[Key, Following]) -> FetchResponse | None:
        """Return the leader's response; None where there is none, after replica.fetch.backoff.ms."""
        positions = {key: each.position() for key, each in ready.items()}
        request = self._session.next_request(positions, self._broker_epoch())
        timeout_s = self._config.replica_socket_timeout_ms / 1000
        self._is_asking, self._is_given_up = True, False
        try:
            response = await self.peer.request(request, FETCH_VERSION, FetchResponse, timeout_s)
        except PeerLost as error:
            self._session.reset()
            if not self._is_given_up:
                await self._note_loss(error)
            return None
        finally:
            self._is_asking = False
        code = ErrorCode.of(response.error_code)
        if code:
            # The leader has forgotten the session, which is worth one attempt without a pause.
            is_fresh = request.session_epoch == 0
            self._session.reset()
            if is_fresh or code not in _SESSION_ERRORS:
                await self._note_loss(KafkaError(code, f"{self.peer.host}:{self.peer.port} answers {code.name}"))
            return None
        self._note_connection()
        self._session.accept(response.session_id)
        return response

    async def _note_loss(self, error: KafkaError) -> None:
        if self._is_connected:
            _log.warning("%d partitions cannot be fetched: %s", len(self.following), error.message)
        self._is_connected = False
        await self._pause()

    def _note_connection(self) -> None:
        if not self._is_connected:
            _log.info("partitions are fetched from %s:%d again", self.peer.host, self.peer.port)
        self._is_connected = True

    async def _pause(self) -> None:
        await asyncio.sleep(self._config.replica_fetch_backoff_ms / 1000)

    # -- The response ----------------------------------------------------------------------------------

    async def _take_all(self, asked: dict[Key, Following], response: FetchResponse) -> None:
        by_id = {(each.topic_id, each.partition.index): each for each in asked.values()}
        for topic in response.responses:
            for data in topic.partitions:
                following = by_id.get((topic.topic_id, data.partition_index))
                # A partition that has another leader by now has left `following`, or has another epoch.
                if following is not None and self._is_current(following):
                    await self._work_on(following, partial(self._take, following, data))
        await self._flush_all(asked.values())

    def _is_current(self, following: Following) -> bool:
        return self.following.get(following.key) is following and following.is_current

    async def _work_on(self, following: Following, work: Callable[[], Awaitable[None]]) -> None:
        """Do work on one partition. An error delays it, and the others are fetched all the same."""
        try:
            await work()
        except RecordError as error:
            self._delay(following, KafkaError(error.code, f"a batch arrived damaged: {error}"))
        except KafkaError as error:
            self._delay(following, error)
        except Exception as error:  # noqa: BLE001 - logged
            self._fail(following, error)

    async def _take(self, following: Following, data: PartitionData) -> None:
        """Do what a response says of a partition."""
        partition, is_current = following.partition, partial(self._is_current, following)
        code = ErrorCode.of(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_start(following, is_current)
        elif code:
            raise KafkaError(code, f"the leader answers {code.name}")
        elif data.diverging_epoch.epoch >= 0:
            diverging = data.diverging_epoch
            await self._logs.go_back(partition, diverging.epoch, diverging.end_offset, is_current)
        else:
            await self._append(following, data, is_current)

    async def _append(self, following: Following, data: PartitionData, is_current: Callable[[], bool]) -> None:
        partition = following.partition
        if data.records:
            self._throttle.note(*partition.place, len(data.records))
            await self._logs.append(partition, data.records, is_current)
            if partition.must_flush:
                following.unflushed = data
                return
        if is_current():
            self._note_offsets(following, data)

    async def _flush_all(self, asked: Iterable[Following]) -> None:
        """Fsync what was appended. The fsyncs of all partitions run beside each other."""
        waiting = [(each, each.unflushed) for each in asked if each.unflushed is not None]
        await asyncio.gather(*(self._work_on(each, partial(self._flush, each, data)) for each, data in waiting))

    async def _flush(self, following: Following, data: PartitionData) -> None:
        await self._logs.flush(following.partition)
        following.unflushed = None
        if self._is_current(following):
            self._note_offsets(following, data)

    def _note_offsets(self, following: Following, data: PartitionData) -> None:
        """Take over the leader's high watermark and log start."""
        partition, log = following.partition, following.partition.log
        following.is_behind = log.log_end_offset < data.high_watermark
        partition.advance(max(min(data.high_watermark, log.log_end_offset), log.log_start_offset))
        if log.log_start_offset < data.log_start_offset <= partition.high_watermark:
            self._delete_records(partition, data.log_start_offset)

    async def _find_start(self, following: Following, is_current: Callable[[], bool]) -> None:
        """Find where to go on, because the leader does not have the end of this log."""
        partition = following.partition
        leader_end = await self._ask_offset(following, _LATEST)
        if leader_end < partition.log.log_end_offset:
            await self._logs.go_back_to(partition, leader_end, is_current)
            return
        leader_start = await self._ask_offset(following, _EARLIEST)
        if leader_start > partition.log.log_end_offset:
            await self._logs.begin_at(partition, leader_start, is_current)

    async def _ask_offset(self, following: Following, timestamp: int) -> int:
        """Return the end or start of the leader's log. Raises KafkaError."""
        wanted = ListOffsetsPartition(following.partition.index, following.leader_epoch, timestamp)
        topic = ListOffsetsTopic(following.partition.topic, [wanted])
        request = ListOffsetsRequest(replica_id=self._config.node_id, topics=[topic])
        timeout_s = self._config.replica_socket_timeout_ms / 1000
        response = await self.peer.request(request, LIST_OFFSETS_VERSION, ListOffsetsResponse, timeout_s)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode.of(found.error_code), "the leader does not tell where its log begins or ends")
        return found.offset

    def _delay(self, following: Following, error: KafkaError) -> None:
        following.not_before_ms = self._clock.monotonic_ms() + self._config.replica_fetch_backoff_ms
        # One line of the whole directory tells of what is offline or full.
        is_told = isinstance(error, StorageError) and (has_no_room(error) or not following.partition.is_online)
        if error.code not in _EXPECTED and not is_told:
            _log.warning("%s could not be fetched: %s", following.partition, error.message)

    def _fail(self, following: Following, error: Exception) -> None:
        """Delay a partition because of an error of this program."""
        following.not_before_ms = self._clock.monotonic_ms() + self._config.replica_fetch_backoff_ms
        self._report(error, f"{following.partition} could not be fetched, which is tried again")

    def _report(self, error: Exception, what: str) -> None:
        """Log an error of this program: the first of its kind with a traceback."""
        kind = f"{type(error).__name__} {what}"
        is_new = kind not in self._reported and len(self._reported) < MAX_REPORTED
        if is_new:
            self._reported.add(kind)
        _log.log(logging.ERROR if is_new else logging.DEBUG, "%s: %r", what, error, exc_info=error if is_new else None)


class Fetchers:
    """The fetchers of this broker: num.replica.fetchers for each leader that it follows, and more for very many
    partitions.
    """

    def __init__(self, config: BrokerConfig, inter_broker: InterBroker, new: Callable[[Peer], Fetcher]) -> None:
        self._config = config
        self._inter_broker = inter_broker
        self._new = new
        self._by_leader: dict[tuple[int, int], Fetcher] = {}
        self._where: dict[Key, Fetcher] = {}
        self._closing: set[asyncio.Future[None]] = set()

    def follow(self, following: Following, leader: int, address: tuple[str, int]) -> None:
        """Fetch a partition from its leader at `address`, and from no other broker."""
        self.stop(following.key)
        place = following.partition
        count = self._config.num_replica_fetchers
        number = (crc32(place.topic.encode()) + place.index) % count
        while (fetcher := self._by_leader.get((leader, number))) is not None:
            if (fetcher.peer.host, fetcher.peer.port) != address:
                moved, fetcher = fetcher, None
                self._end(moved)
                break
            if len(fetcher.following) < MAX_FOLLOWED:
                break
            number += count
        if fetcher is None:
            peer = self._inter_broker.peer(*address, f"broker-{self._config.node_id}-fetcher-{number}")
            fetcher = self._by_leader[leader, number] = self._new(peer)
        fetcher.add(following)
        self._where[following.key] = fetcher

    def has(self, key: Key, address: tuple[str, int]) -> bool:
        """Return whether a partition is fetched from the broker at `address`."""
        fetcher = self._where.get(key)
        return fetcher is not None and (fetcher.peer.host, fetcher.peer.port) == address

    def stop(self, key: Key) -> None:
        """Fetch a partition no longer."""
        fetcher = self._where.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)
            if not fetcher.following:
                self._by_leader = {at: each for at, each in self._by_leader.items() if each is not fetcher}
                self._end(fetcher)

    def _end(self, fetcher: Fetcher) -> None:
        closing = asyncio.ensure_future(fetcher.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all of them."""
        work: list[Awaitable[None]] = [each.close() for each in self._by_leader.values()]
        self._by_leader, self._where = {}, {}
        await asyncio.gather(*work, *self._closing)
