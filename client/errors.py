"""What can go wrong in the client, as one tree under `KafkaError`.

`KafkaError` itself carries what a broker answered: its code, its text and whether trying again may help
(`retriable`). The classes here are for what the client sees by itself; each has the code that Kafka's own clients use
for the same trouble, so that `except KafkaError as error: if error.retriable` is enough to handle both.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode, KafkaError

__all__ = [
    "BadResponse",
    "BufferFull",
    "ClientStopped",
    "CommitFailed",
    "ConnectionLost",
    "CorruptRecords",
    "DeliveryTimedOut",
    "ErrorCode",
    "GroupRequired",
    "InvalidOption",
    "KafkaError",
    "NoBrokerReachable",
    "NoOffsetForPartition",
    "NotAssigned",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "RecordTooLarge",
    "RequestTimedOut",
    "UnknownTopic",
    "UnsupportedVersion",
]


class ConnectionLost(KafkaError):
    """The connection could not be made, or ended before the answer came.

    What was asked may or may not have been done.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class NoBrokerReachable(ConnectionLost):
    """None of the known addresses answers. Retriable: a broker may be starting."""


class BadResponse(ConnectionLost):
    """A peer sent bytes that are no answer to what was asked.

    The connection is closed: nothing behind them can be trusted.
    """


class RequestTimedOut(KafkaError):
    """No answer within the request's time-out. The connection is closed, since answers come in order."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class DeliveryTimedOut(RequestTimedOut):
    """A record could not be delivered within `delivery_timeout_ms`."""


class BufferFull(RequestTimedOut):
    """`buffer_memory` bytes of records wait for their acknowledgement and there is no room for another."""


class UnsupportedVersion(KafkaError):
    """Client and broker have no version of an API in common."""

    def __init__(self, api: str, ours: range, theirs: tuple[int, int] | None) -> None:
        offer = "does not offer it" if theirs is None else f"speaks versions {theirs[0]}-{theirs[1]}"
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"{api}: the broker {offer}, this client versions {ours[0]}-{ours[-1]}"
        )
        self.api = api
        self.ours = ours
        self.theirs = theirs


class UnknownTopic(KafkaError):
    """The topic or partition does not exist, or was not found in time. The waiting is done: this is not retriable."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    @property
    def retriable(self) -> bool:
        return False


class RecordTooLarge(KafkaError):
    """One record is larger than `max_request_size` allows."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class OutcomeUnknown(KafkaError):
    """The records may or may not be in the log: an earlier batch of the partition got no answer in time.

    They are not sent again, because that could write them twice.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


class InvalidOption(KafkaError):
    """An option has a value that it cannot have; the message names it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class ClientStopped(KafkaError):
    """The client was used before `start()` or after `stop()`."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class CorruptRecords(KafkaError):
    """What a broker has at this offset cannot be read: a wrong CRC, a codec that is not known, bytes that are no
    records."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class NotAssigned(KafkaError):
    """The consumer does not have this partition."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class GroupRequired(KafkaError):
    """The operation is one of a consumer group, and the consumer has no `group_id`."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_GROUP_ID, message)


class NoOffsetForPartition(KafkaError):
    """A partition has no committed offset and `auto_offset_reset` is "none"."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class OffsetOutOfRange(KafkaError):
    """The position lies outside of the log and `auto_offset_reset` is "none"."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class CommitFailed(KafkaError):
    """The group did not take the commit.

    Its partitions have gone to other members, who will see these records again.
    """


def refuse(code: int, message: str | None, what: str) -> None:
    """Raises KafkaError for an error code in an answer: `what` was not done, and the broker's own words."""
    error = ErrorCode.of(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{what}: {message or error.text}")
