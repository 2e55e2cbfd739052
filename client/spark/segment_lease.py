"""A lease of segment files, for a task on the broker's machine: asked for, checked, renewed and ended.

The broker names files and says whose they are; the ids in `meta.properties` beside them must be the same. Otherwise the
path is that of another machine, or of another broker. A thread renews the lease, because a task may be held up for long
by what it feeds.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.odradek_lease_segments import (
    LeasedFile,
    OdradekLeaseSegmentsRequest,
    OdradekLeaseSegmentsResponse,
)
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ..core.addresses import Address
from ..errors import DirectReadNotPossible, UnsupportedVersion
from .connection import BlockingConnection
from .offsets import OffsetRange
from .options import ClientOptions

log = logging.getLogger(__name__)

# A lease is renewed so many times before it would end.
_RENEWALS = 3


def ask(
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
