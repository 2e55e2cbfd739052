"""The errors of the client, as one tree under `KafkaError`.

`KafkaError` itself carries an error of a broker: its code, its text, and whether a retry may help (`retriable`). The
classes here are for errors that the client finds. Each has the code that Kafka's own clients use for the same error, so
that `except KafkaError as error: if error.retriable` handles both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from ..protocol.errors import ErrorCode as ErrorCode
from ..protocol.errors import KafkaError as KafkaError
from .record import ConsumerRecord, TopicPartition

Item = TypeVar("Item")
R = TypeVar("R")

# How many failed items a message names.
_NAMED_FAILURES = 3


class ClientError(KafkaError):
    """An error that the client finds: each kind says its code, and whether a retry may help where the code does not."""

    _code = ErrorCode.UNKNOWN_SERVER_ERROR
    _is_retriable: bool | None = None

    def __init_subclass__(cls, *, code: ErrorCode | None = None, retriable: bool | None = None) -> None:
        cls._code = cls._code if code is None else code
        cls._is_retriable = cls._is_retriable if retriable is None else retriable

    def __init__(self, message: str) -> None:
        super().__init__(self._code, message)

    @property
    def retriable(self) -> bool:
        return self.code.retriable if self._is_retriable is None else self._is_retriable


class ConnectionLost(ClientError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection could not be made, or ended before the response came.

    The broker may or may not have carried out the request.
    """


class NotConnected(ConnectionLost):
    """No connection could be made: nobody listens at the address, the host is unknown, or a network is in between."""


class NoBrokerReachable(ConnectionLost):
    """No broker can be used at any known address. Retriable: a broker may be starting.

    `tried` names each address with the reason. `listens` tells whether somebody takes connections at one of them: then
    no broker need be started, and the reason says what to set instead, such as `security_protocol`.
    """

    def __init__(self, tried: str, *, listens: bool = False) -> None:
        start = 'Start a broker with "odradek serve", or name another one.'
        super().__init__(f"cannot use {tried}" if listens else f"cannot reach {tried}. {start}")
        self.tried = tried
        self.listens = listens


class AuthenticationFailed(ClientError, retriable=False):
    """The broker rejected this client, or this client the broker: by TLS certificate, by password or by token.

    The message says what to set. It is not retriable, because the next attempt would fail in the same way.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        KafkaError.__init__(self, code, message)


class BadResponse(ConnectionLost):
    """A peer sent bytes that are no response to the request.

    The connection is closed, because nothing behind these bytes can be trusted.
    """


class RequestTimedOut(ClientError, code=ErrorCode.REQUEST_TIMED_OUT):
    """No response came within the request's time-out. The connection is closed, because responses come in order."""


class Outcome(Enum):
    """What is known of a record whose delivery failed."""

    NOT_WRITTEN = "not written"
    # A request got no response, or one that does not say: the record may be in the log.
    UNKNOWN = "written or not, nobody knows"
    # It is in the leader's log, but not in those of as many replicas as acks="all" needs.
    WRITTEN = "written by the leader alone"


class DeliveryFailed(KafkaError):
    """A record was not delivered, for the reason of `code`. `outcome` says whether it is in the log all the same."""

    def __init__(self, code: ErrorCode, message: str, outcome: Outcome = Outcome.NOT_WRITTEN) -> None:
        KafkaError.__init__(self, code, message)  # some subclasses have another parent beside this one
        self.outcome = outcome


class DeliveryTimedOut(DeliveryFailed, RequestTimedOut):
    """A record could not be delivered within `delivery_timeout_ms`."""

    def __init__(self, message: str, outcome: Outcome = Outcome.NOT_WRITTEN) -> None:
        DeliveryFailed.__init__(self, ErrorCode.REQUEST_TIMED_OUT, message, outcome)


class BufferFull(RequestTimedOut):
    """No room for another record: `buffer_memory` bytes of records wait for acknowledgement."""


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


class UnknownTopic(ClientError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, retriable=False):
    """The topic or partition does not exist, or was not found in time. Not retriable: the client has waited already."""


class RecordTooLarge(ClientError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """One record is larger than `max_request_size` allows."""


class OutcomeUnknown(DeliveryFailed):
    """The records may or may not be in the log, because an earlier batch of the partition got no response in time.

    They are not sent again: that could write them twice.
    """

    def __init__(self, message: str, outcome: Outcome = Outcome.UNKNOWN) -> None:
        super().__init__(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message, outcome)


class SchemaRegistryUnavailable(ClientError, code=ErrorCode.NETWORK_EXCEPTION):
    """No schema registry answered in time. Retriable: nothing is wrong with the record, which was not sent or read."""


class SchemaRegistryRefused(ClientError, code=ErrorCode.INVALID_RECORD):
    """The schema registry answered with an error: an HTTP `status`, and a `registry_code` such as 40403."""

    def __init__(self, status: int, registry_code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.registry_code = registry_code


class SerializationFailed(ClientError, code=ErrorCode.INVALID_RECORD):
    """The serializer raised an exception, which is the cause of this one, or returned something else than bytes."""


class DeserializationFailed(KafkaError):
    """A deserializer raised an exception, which is the cause of this one, at the `field` "key" or "value" of a record.

    `record` has its bytes. The position stays at it, so each poll of its partition raises until the consumer seeks:
    `consumer.seek(error.partition, error.offset + 1)` skips it. The other partitions are read meanwhile.
    """

    def __init__(self, field: str, record: ConsumerRecord, cause: Exception) -> None:
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        # The text of a ValueError says what is wrong; that of a KeyError, say, is a mere name.
        reason = str(cause) if isinstance(cause, ValueError) and str(cause) else repr(cause)
        super().__init__(ErrorCode.INVALID_RECORD, f"{place}: the {field} cannot be deserialized: {reason}")
        self.field = field
        self.record = record

    @property
    def partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.record.topic, self.record.partition)

    @property
    def offset(self) -> int:
        """The offset of the record."""
        return self.record.offset


class InvalidTransactionState(ClientError, code=ErrorCode.INVALID_TXN_STATE):
    """The call does not fit the state of the producer's transaction: for example, a record without a transaction."""


class TransactionFailed(KafkaError):
    """The transaction can only be aborted, then the producer is usable again.

    `code` is that of the error that made it fail, and `__cause__` the error itself.
    """

    @property
    def retriable(self) -> bool:
        return False


class TransactionAborted(DeliveryFailed):
    """The record was not sent, or not acknowledged, before its transaction was aborted. No committed reader sees it."""

    def __init__(self, message: str, outcome: Outcome = Outcome.NOT_WRITTEN) -> None:
        super().__init__(ErrorCode.TRANSACTION_ABORTABLE, message, outcome)


class ProducerUnusable(KafkaError):
    """The transactional producer cannot go on: close it, and start another one if the error allows that."""

    @property
    def retriable(self) -> bool:
        return False


class ProducerFenced(ProducerUnusable):
    """The transactional id has a newer epoch: of another producer, or because a transaction took too long."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.PRODUCER_FENCED, message)


class InvalidOption(ClientError, code=ErrorCode.INVALID_CONFIG):
    """An option has an invalid value; the message names the option."""


class ValueOutOfRange(ClientError, code=ErrorCode.INVALID_REQUEST):
    """A value does not fit its field on the wire, such as an offset above 2^63 - 1; nothing was sent."""


class ClientStopped(ClientError, code=ErrorCode.INVALID_REQUEST):
    """The client was used before `start()` or after `stop()`."""


class WrongEventLoop(ClientError, code=ErrorCode.INVALID_REQUEST):
    """The client was started in another event loop, which may have ended."""


class DeliveryStopped(DeliveryFailed, ClientStopped):
    """The producer was stopped before the record was acknowledged."""

    def __init__(self, message: str, outcome: Outcome = Outcome.NOT_WRITTEN) -> None:
        DeliveryFailed.__init__(self, ErrorCode.INVALID_REQUEST, message, outcome)


class CorruptRecords(ClientError, code=ErrorCode.CORRUPT_MESSAGE):
    """The bytes at an offset cannot be read: a wrong CRC, an unknown codec, or no valid records."""


class NotAssigned(ClientError, code=ErrorCode.INVALID_REQUEST):
    """The partition is not assigned to this consumer."""


class GroupRequired(ClientError, code=ErrorCode.INVALID_GROUP_ID):
    """The operation needs a consumer group, and the consumer has no `group_id`."""


class NoOffsetForPartition(ClientError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """A partition has no committed offset and `auto_offset_reset` is "none"."""


class OffsetOutOfRange(ClientError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The position is outside of the log and `auto_offset_reset` is "none"."""


class LogTruncated(ClientError, code=ErrorCode.OFFSET_OUT_OF_RANGE, retriable=False):
    """A new leader lacks records that were read, and `auto_offset_reset` is "none" (KIP-320).

    `position` is the offset that was to be read next, `diverged_at` the first offset that the leader does not have as
    it was read (None: it does not know).
    """

    def __init__(self, message: str, partition: TopicPartition, position: int, diverged_at: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        self.position = position
        self.diverged_at = diverged_at


class TopicRecreated(ClientError, code=ErrorCode.UNKNOWN_TOPIC_ID, retriable=False):
    """A topic was deleted and made again while it was read, and `auto_offset_reset` is "none".

    `position` is the offset in the deleted topic that was to be read next.
    """

    def __init__(self, message: str, partition: TopicPartition, position: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.position = position


class HandlerFailed(ClientError, code=ErrorCode.UNKNOWN_SERVER_ERROR, retriable=False):
    """A handler of `consume` raised an exception at its last attempt, which is the cause of this one.

    The record was not processed, and it is returned again. `record` is that record.
    """

    def __init__(self, message: str, record: ConsumerRecord) -> None:
        super().__init__(message)
        self.record = record


class OffsetStoreFailed(ClientError, code=ErrorCode.UNKNOWN_SERVER_ERROR, retriable=False):
    """The user's offset store raised an exception, which is the cause of this one.

    A member that gets no offsets for its partitions has left its group: each poll raises it until the topics are
    subscribed again.
    """


class DirectReadNotPossible(ClientError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The broker's files cannot be read from here; what they hold can be fetched. The message says why."""


class ItemsFailed(KafkaError):
    """Of several things that a call was about, one or more failed. `code` is that of the first.

    `results` has every item: what it brought, or its KafkaError.
    """

    def __init__(self, results: Mapping[Any, Any]) -> None:
        self.results = dict(results)
        failed = list(self.failures.values())
        texts = "; ".join(error.message for error in failed[:_NAMED_FAILURES])
        more = f"; and {len(failed) - _NAMED_FAILURES} more" if len(failed) > _NAMED_FAILURES else ""
        super().__init__(failed[0].code, f"{len(failed)} of {len(self.results)} failed: {texts}{more}")

    @property
    def failures(self) -> dict[Any, KafkaError]:
        """The items that failed, with their errors."""
        return {item: result for item, result in self.results.items() if isinstance(result, KafkaError)}

    @property
    def retriable(self) -> bool:
        return all(error.retriable for error in self.failures.values())


class CommitFailed(KafkaError):
    """The group rejected the commit.

    Other members have the partitions now, and will read these records again.
    """


class ConcurrentPoll(ClientError, code=ErrorCode.INVALID_REQUEST):
    """Two tasks polled one consumer at the same time."""


class InvalidAcknowledgement(ClientError, code=ErrorCode.INVALID_RECORD_STATE):
    """A record of a share group cannot be acknowledged like that, or has to be acknowledged first."""


class ListenerFailed(ClientError, code=ErrorCode.UNKNOWN_SERVER_ERROR, retriable=False):
    """The user's rebalance listener raised an exception, which is the cause of this one. The member has left its group.

    Each poll raises it until the topics are subscribed again.
    """


def delivery_error(error: KafkaError, outcome: Outcome) -> DeliveryFailed:
    """Return the error of records that fail with `error`: with its code and message, and with their own outcome."""
    for kind in (DeliveryTimedOut, OutcomeUnknown, TransactionAborted, DeliveryStopped):
        if isinstance(error, kind):
            same = kind(error.message, outcome)
            same.__cause__ = error.__cause__
            return same
    failure = DeliveryFailed(error.code, error.message, outcome)
    failure.__cause__ = error
    return failure


def error_of(code: int, message: str | None, what: str) -> KafkaError | None:
    """Return the error of a code in a response, None for 0: `what` failed, and the broker's message."""
    error = ErrorCode.of(code)
    return None if error is ErrorCode.NONE else KafkaError(error, f"{what}: {message or error.text}")


def raise_error(code: int, message: str | None, what: str) -> None:
    """Raise the error of a code in a response, unless it is 0."""
    if (error := error_of(code, message, what)) is not None:
        raise error


def only(results: Sequence[R], asked: object) -> R:
    """Return the one result of a response about one thing. Raises BadResponse where there is another number."""
    if len(results) != 1:
        raise BadResponse(f"{len(results)} results came for {asked}, about which alone the broker was asked")
    return results[0]


def answered(asked: Iterable[Item], said: Mapping[Item, R | KafkaError]) -> dict[Item, R | KafkaError]:
    """Return what a response says of each item that was asked for: BadResponse of one that it leaves out."""
    return {
        each: said[each] if each in said else BadResponse(f"the broker left {each!r} out of its answer")
        for each in asked
    }


def results_of(found: Mapping[Item, R | KafkaError]) -> dict[Item, R]:
    """Return the results without errors. Raises the error of a single item, or of all, as it is, else ItemsFailed."""
    errors = [result for result in found.values() if isinstance(result, KafkaError)]
    if errors:
        failed_as_one = len(errors) == len(found) and len({(each.code, each.message) for each in errors}) == 1
        raise errors[0] if failed_as_one else ItemsFailed(found)
    return {item: result for item, result in found.items() if not isinstance(result, KafkaError)}
