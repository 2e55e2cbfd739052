"""Reads one range of a partition from the broker's files: no byte of a record goes through the broker.

    lease -> open a file -> read a chunk -> scan headers -> yield the section -> ... -> next file -> next lease -> ...

The broker names files and says whose they are; the ids in `meta.properties` beside them must be the same. Otherwise the
path is that of another machine, or of another broker. A thread renews the lease, because a reader may be held up for
long by what it feeds.

The sections are those of a fetch: the same table, the same batches left out, and CRCs are checked where batches are
decoded. With `path=auto`, where files cannot be read the rest of the range is fetched, with one line in the log.

Promise: `sections` ends as it does for a fetch.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import PartitionData
from ...protocol.messages.odradek_lease_segments import (
    LeasedFile,
    OdradekLeaseSegmentsRequest,
    OdradekLeaseSegmentsResponse,
)
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ...protocol.records.errors import CorruptBatch
from ..core.option_values import Address
from ..errors import DirectReadNotPossible, UnsupportedVersion
from .brokers import Brokers
from .connection import BlockingConnection, ClientOptions, ReadOptions, ReadPath
from .fetch import OffsetRange, RangeFetch

if TYPE_CHECKING:
    from .batches import Section

log = logging.getLogger(__name__)

# Small enough for the processor's cache, large enough that system calls do not count.
CHUNK_BYTES = 2 << 20
# A batch may be larger than a chunk, but never larger than this: brokers do not take such requests.
MAX_BATCH_BYTES = 1 << 30
_HEAD_BYTES = 12
# A lease is renewed so many times before it would end.
_RENEWALS = 3


def range_reader(wanted: OffsetRange, options: ReadOptions, brokers: Brokers) -> RangeFetch:
    """Return the reader of one range that `options.path` asks for."""
    kind = RangeFetch if options.path is ReadPath.FETCH else DirectRead
    return kind(wanted, options, brokers)


class DirectRead(RangeFetch):
    """Reads one range. Used once: iterate over `sections()`."""

    def __init__(self, wanted: OffsetRange, options: ReadOptions, brokers: Brokers) -> None:
        super().__init__(wanted, options, brokers)
        # False once the rest of the range is fetched.
        self.is_direct = True
        self._lease: SegmentLease | None = None
        # Files of the lease that are not read yet.
        self._files: deque[LeasedFile] = deque()
        # The open file with its descriptor, and where its next batch begins.
        self._open: tuple[LeasedFile, int] | None = None
        self._at = 0
        # Whether a file of the present lease could be opened.
        self._has_opened = False
        # Where the last lease began.
        self._leased_at = -1
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def prefetch(self) -> None:
        """Do nothing while files are read: the system reads ahead."""
        if not self.is_direct:
            super().prefetch()

    def _step(self) -> Section | None:
        if not self.is_direct:
            return super()._step()
        try:
            return self._read()
        except DirectReadNotPossible as error:
            why = f"direct read not possible: {self._range} at {self.position}: {error.message}"
            if self._options.path is ReadPath.DIRECT:
                raise DirectReadNotPossible(why) from None
            log.warning("%s; the rest is fetched from the broker", why)
            self.is_direct = False
            self._disconnect()
            return None

    def _disconnect(self) -> None:
        super()._disconnect()
        self._drop_lease()

    # -- Leases

    def _read(self) -> Section | None:
        """Return the next section of the open file, or open the next one and return None."""
        if self._open is not None:
            return self._next_section(*self._open)
        if self._files:
            self._open_next()
            return None
        self._drop_lease()
        self._ask()
        return None

    def _ask(self) -> None:
        address, self._planned_leader = self._planned_leader or self._leader(), None
        level = self._options.client.isolation_level
        try:
            with BlockingConnection(address, self._options.client) as connection:
                granted = lease_segments(connection, self._range, self.position, level)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._out_of_range()
            return
        if granted.lease_id < 0 and granted.next_offset > self.position:
            # No batch is there: compaction has removed what was.
            self.position = granted.next_offset
            self._progressed()
            return
        if granted.lease_id < 0:
            ends = PartitionData(high_watermark=granted.high_watermark, last_stable_offset=granted.last_stable_offset)
            self._nothing(ends)
            return
        self._lease = SegmentLease(granted, address, self._options.client)
        if not self._failures and self._leased_at == self.position:
            raise DirectReadNotPossible(f"{address} leases files that have nothing from {self.position} on")
        self._leased_at = self.position
        self._lease.check()
        self._files.extend(granted.files)
        self._has_opened = False
        # The next lease is of the same broker, as long as nothing fails.
        self._planned_leader = address

    def _open_next(self) -> None:
        assert self._lease is not None
        file = self._files.popleft()
        try:
            self._open = file, self._lease.open(file)
        except FileNotFoundError:
            if not self._has_opened:
                raise DirectReadNotPossible(f"{file.name} is missing, although it is leased") from None
            # The lease has ended: the broker has started again, or this task was held up for too long.
            self._drop_lease()
            return
        self._has_opened = True
        self._at = file.position

    def _drop_lease(self) -> None:
        self._close_file()
        self._files.clear()
        if self._lease is not None:
            lease, self._lease = self._lease, None
            lease.close()

    def _close_file(self) -> None:
        if self._open is not None:
            _, descriptor = self._open
            self._open = None
            os.close(descriptor)

    # -- Files

    def _next_section(self, file: LeasedFile, descriptor: int) -> Section | None:
        from . import batches

        if self._at >= file.end:
            self._close_file()
            if self.position < file.next_offset:
                # No batch reaches the offsets in between: compaction has removed them.
                self.position = file.next_offset
            self._progressed()
            return None
        data = self._chunk(file, descriptor, min(CHUNK_BYTES, file.end - self._at))
        source, table, _ = batches.scan(data)
        if not len(table):
            source, table, _ = batches.scan(self._large_batch(file, descriptor, data))
        if not len(table):
            raise CorruptBatch(f"{file.name} of {self._range}: no whole batch at {self._at}")
        self._at += batches.scanned_bytes(table)
        first, following = batches.first_offset(table), batches.next_offset(table)
        assert self._lease is not None
        reach_here = (
            (each.first_offset, each.producer_id)
            for each in self._lease.granted.aborted_transactions
            if each.last_offset >= first and each.first_offset < following
        )
        return self._section(source, table, reach_here)

    def _large_batch(self, file: LeasedFile, descriptor: int, data: memoryview) -> memoryview:
        """Return the bytes of the one batch that is larger than a chunk. Raises CorruptBatch."""
        size = _HEAD_BYTES + int.from_bytes(data[8:_HEAD_BYTES], "big", signed=True) if len(data) > _HEAD_BYTES else 0
        if not CHUNK_BYTES < size <= min(file.end - self._at, MAX_BATCH_BYTES):
            raise CorruptBatch(f"{file.name} of {self._range}: a batch of {size} bytes at {self._at}")
        if len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))
        return self._chunk(file, descriptor, size)

    def _chunk(self, file: LeasedFile, descriptor: int, size: int) -> memoryview:
        """Return `size` bytes of a file, valid until the next chunk. Raises DirectReadNotPossible."""
        target, filled = self._buffer[:size], 0
        while filled < size:
            try:
                count = os.preadv(descriptor, [target[filled:]], self._at + filled)
            except OSError as error:
                raise DirectReadNotPossible(f"{file.name} at {self._at}: {error.strerror}") from None
            if not count:
                raise DirectReadNotPossible(f"{file.name} ends at {self._at + filled}, before {file.end}: it was cut")
            filled += count
        return target


# -- Leases


def lease_segments(
    connection: BlockingConnection, wanted: OffsetRange, position: int, isolation_level: int
) -> OdradekLeaseSegmentsResponse:
    """Return the files of a range from `position` on, leased where there are any.

    Raises DirectReadNotPossible where the broker has no such request or rejects it, and KafkaError with those errors of
    the broker that a fetch would meet too.
    """
    request = OdradekLeaseSegmentsRequest(
        topic=wanted.topic,
        topic_id=wanted.topic_id,
        partition=wanted.partition,
        start_offset=position,
        end_offset=wanted.end,
        isolation_level=isolation_level,
    )
    try:
        response = connection.request(request, OdradekLeaseSegmentsResponse)
    except UnsupportedVersion:
        why = f"{connection.address} is no Odradek broker, or an older one"
        raise DirectReadNotPossible(why) from None
    code = ErrorCode.of(response.error_code)
    if code is ErrorCode.NONE:
        return response
    what = f"{connection.address}: {response.error_message or code.text}"
    if code in _REJECTED:
        raise DirectReadNotPossible(what)
    raise KafkaError(code, what)


# With these a fetch may be possible all the same.
_REJECTED = frozenset(
    {
        ErrorCode.POLICY_VIOLATION, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CORRUPT_MESSAGE,
    }
)  # fmt: skip


class SegmentLease:
    """One lease that was granted. `close` gives it back; a reader that dies without it lets the lease expire."""

    def __init__(self, granted: OdradekLeaseSegmentsResponse, address: Address, options: ClientOptions) -> None:
        self.granted = granted
        self._directory = Path(granted.directory)
        self._address = address
        self._options = options
        self._closed = threading.Event()
        threading.Thread(target=self._renew, name="odradek-lease", daemon=True).start()

    def check(self) -> None:
        """Raise DirectReadNotPossible unless the files are the broker's own and on this machine."""
        path = self._directory.parent / "meta.properties"
        try:
            found = _properties(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DirectReadNotPossible(f"the broker's files are not on this machine ({path} is missing)") from None
        except (OSError, UnicodeDecodeError) as error:
            raise DirectReadNotPossible(f"{path} cannot be read: {_reason(error)}") from None
        expected = {"cluster.id": self.granted.cluster_id, "directory.id": self.granted.directory_id}
        for name, value in expected.items():
            if found.get(name) != value:
                raise DirectReadNotPossible(f"{path} is another broker's: its {name} is {found.get(name)}, not {value}")

    def open(self, file: LeasedFile) -> int:
        """Return a descriptor of a leased file. Raises FileNotFoundError, DirectReadNotPossible."""
        path = self._directory / file.name
        if path.parent != self._directory or not path.name.endswith(".log"):
            # What a task opens lies in the directory that was checked, whatever a broker says.
            raise DirectReadNotPossible(f"{self._address} names {file.name!r}, which is no file of its lease")
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DirectReadNotPossible(f"{path} cannot be opened: {_reason(error)}") from None

    def close(self) -> None:
        """Give the lease back. A failure is logged only: the lease then expires."""
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self._send(is_end=True)
        except KafkaError as error:
            log.info("a lease of segments could not be given back, and expires: %s", error)

    def _send(self, *, is_end: bool) -> None:
        with BlockingConnection(self._address, self._options) as connection:
            request = OdradekRenewLeaseRequest(lease_id=self.granted.lease_id, is_end=is_end)
            code = ErrorCode.of(connection.request(request, OdradekRenewLeaseResponse).error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"the lease has ended: {code.text}")

    def _renew(self) -> None:
        """Renew until the lease is closed or has ended. The reader meets that when its next file is missing."""
        while not self._closed.wait(self.granted.lease_ms / 1000 / _RENEWALS):
            try:
                self._send(is_end=False)
            except KafkaError as error:
                log.info("a lease of segments is not renewed: %s", error)
                if not error.retriable:
                    return


def _properties(text: str) -> Mapping[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no text"
