"""The errors on the wire: Kafka's table of error codes, and the exceptions of the codec and the frames.

ErrorCode is the one table: code, name, whether a client may simply try again, and what it means. KafkaError carries a
code to the code that answers the request. DecodeError and EncodeError say that bytes or values do not fit the messages.
"""

from __future__ import annotations

from enum import IntEnum

RETRIABLE = True
FINAL = False


class ErrorCode(IntEnum):
    """Every error code of Kafka 4.4.0 under Kafka's own name."""

    _value_: int
    retriable: bool
    """Whether the same request may succeed later, as Kafka's clients judge it."""
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, FINAL, "The broker ran into an error that it did not expect."
    NONE = 0, FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset asked for is not in the log."
    CORRUPT_MESSAGE = 2, RETRIABLE, "The batch is corrupt: its CRC, its size or its contents are wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "This broker does not host the partition, or the topic does not exist."
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch size asked for makes no sense."
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, RETRIABLE, "This broker does not lead the partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, RETRIABLE, "The request ran out of time."
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "No replica is available for the partition."
    MESSAGE_TOO_LARGE = 10, FINAL, "The batch is larger than the topic's max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, FINAL, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "The offset's metadata is longer than offset.metadata.max.bytes."
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection ended before the response came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is still reading its groups or transactions."
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "There is no coordinator available yet."
    NOT_COORDINATOR = 16, RETRIABLE, "This broker does not coordinate the group or transaction."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic's name is not allowed, or may not be used this way."
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The batch is larger than a segment may be."
    NOT_ENOUGH_REPLICAS = 19, RETRIABLE, "Too few replicas are in sync to accept the write."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRIABLE, "The write is in the log, but too few replicas have it."
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, FINAL, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, "The member names no protocol that all members of the group have."
    INVALID_GROUP_ID = 24, FINAL, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, FINAL, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout is outside of what the broker allows."
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "Not authorized for the topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "Not authorized for the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "Not authorized for the cluster."
    INVALID_TIMESTAMP = 32, FINAL, "A record's timestamp is too far from the broker's time."
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, FINAL, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, FINAL, "The broker does not support this version of the API."
    TOPIC_ALREADY_EXISTS = 36, FINAL, "A topic of this name exists."
    INVALID_PARTITIONS = 37, FINAL, "A topic needs at least one partition, and can only get more of them."
    INVALID_REPLICATION_FACTOR = 38, FINAL, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The assignment of replicas is not valid."
    INVALID_CONFIG = 40, FINAL, "A configuration is not valid."
    NOT_CONTROLLER = 41, RETRIABLE, "This broker is not the controller."
    INVALID_REQUEST = 42, FINAL, "The request contradicts itself or breaks a rule of the API."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "The log's message format does not support this request."
    POLICY_VIOLATION = 44, FINAL, "A policy of the broker forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The producer's sequence number does not follow on the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The broker has this sequence number already."
    INVALID_PRODUCER_EPOCH = 47, FINAL, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, FINAL, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout is above the broker's transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, RETRIABLE, "Another operation on the same transaction has not ended yet."
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "The transaction coordinator has been replaced by a newer one."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, "Not authorized for the transactional id."
    SECURITY_DISABLED = 54, FINAL, "Security is not switched on."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "The broker's disk failed under this partition's log."
    LOG_DIR_NOT_FOUND = 57, FINAL, "The log directory is not one of the broker's."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "The SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FINAL, "The broker has no state for this producer id, or has dropped it."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation tokens are not switched on."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "The principal may not own or renew this delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "Delegation tokens cannot be asked for over this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "Not authorized for the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "The delegation token has run out."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "The type of principal is not supported."
    NON_EMPTY_GROUP = 68, FINAL, "The group has members."
    GROUP_ID_NOT_FOUND = 69, FINAL, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "The broker does not have this fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The epoch does not follow on the fetch session's last one."
    LISTENER_NOT_FOUND = 72, RETRIABLE, "The partition's leader has no listener of this name."
    TOPIC_DELETION_DISABLED = 73, FINAL, "Topics cannot be deleted on this broker."
    FENCED_LEADER_EPOCH = 74, RETRIABLE, "The leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, RETRIABLE, "The leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "The client does not understand the compression of this partition."
    STALE_BROKER_EPOCH = 77, FINAL, "The broker's epoch is out of date."
    OFFSET_NOT_AVAILABLE = 78, RETRIABLE, "The leader is too new to know which offsets are safe: ask again."
    MEMBER_ID_REQUIRED = 79, FINAL, "Join again with the member id given in this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, FINAL, "Another consumer has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No replica that may lead is available."
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition has the leader that it should have."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "A member of the group is subscribed to the topic."
    INVALID_RECORD = 87, FINAL, "A record breaks a rule of its topic."
    UNSTABLE_OFFSET_COMMIT = 88, RETRIABLE, "A transaction holds offsets that are not decided yet."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "A quota is used up."
    PRODUCER_FENCED = 90, FINAL, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, FINAL, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, FINAL, "Sender and receiver do not agree on who votes."
    INVALID_UPDATE_VERSION = 95, FINAL, "The feature level asked for is not valid."
    FEATURE_UPDATE_FAILED = 96, FINAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, FINAL, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, FINAL, "The position is outside of the snapshot."
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "No topic has this id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "Another broker has registered this id."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "No broker has registered this id."
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The topic's id is not the one that the log was made with."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The cluster id is not this cluster's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "A fetch session must use topic ids or names throughout."
    INELIGIBLE_REPLICA = 107, FINAL, "A replica that is not eligible was to be in sync."
    NEW_LEADER_ELECTED = 108, FINAL, "The change was made, but the partition has a new leader by now."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "The offset lies in tiered storage."
    FENCED_MEMBER_EPOCH = 110, FINAL, "The member's epoch has been replaced: give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, FINAL, "Another member still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "The group does not support this assignor or its version."
    STALE_MEMBER_EPOCH = 113, FINAL, "The member's epoch is out of date: ask again after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "The request went to a broker instead of a controller, or vice versa."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "This type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "The telemetry subscription does not exist or is out of date."
    TELEMETRY_TOO_LARGE = 118, FINAL, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, FINAL, "The controller refuses the broker's registration."
    TRANSACTION_ABORTABLE = 120, FINAL, "The transaction can only be aborted; the transactional id stays usable."
    INVALID_RECORD_STATE = 121, FINAL, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "The broker does not have this share session."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "The epoch does not follow on the share session's last one."
    FENCED_STATE_EPOCH = 124, FINAL, "The share group's state has a newer epoch."
    INVALID_VOTER_KEY = 125, FINAL, "The voter's key is not the receiver's."
    DUPLICATE_VOTER = 126, FINAL, "The voter is one already."
    VOTER_NOT_FOUND = 127, FINAL, "The voter is not one of the voters."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, FINAL, "The client's metadata is too old: start again from the bootstrap addresses."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "The topology's epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "The broker holds as many share sessions as it may."
    GROUP_DELETION_FAILED = 134, FINAL, "A part of the group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, FINAL, "The topology's description could not be stored."
    CONTROLLER_ID_NOT_REGISTERED = 136, FINAL, "No controller is registered under the id."

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """Return the member for a code from the wire; UNKNOWN_SERVER_ERROR for a code of a newer broker."""
        try:
            return cls(code)  # type: ignore[call-arg]
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR


class ProtocolError(Exception):
    """Bytes and values that do not fit each other."""


class DecodeError(ProtocolError):
    """Bytes that are no message of the version that they claim."""


class TruncatedMessage(DecodeError):
    """The bytes end before the message does, or it announces more than can be there."""


class TrailingBytes(DecodeError):
    """Bytes are left over behind the message."""


class InvalidField(DecodeError):
    """A field holds what it must not: null where none is allowed, a negative length, bytes that are not UTF-8."""


class TooManyValues(DecodeError):
    """A message has more array elements and tagged fields than the caller allows."""


class UnknownVersion(DecodeError):
    """The message is not declared in this version."""


class EncodeError(ProtocolError):
    """A value that does not fit its field, or one in a field that the version lacks and that must not be dropped."""


# A text of a response has room for 32,767 bytes, and a character takes up to four. Messages name what clients send.
_MAX_MESSAGE_CHARS = 8_000


class KafkaError(Exception):
    """A rejection that has a code on the wire. The message, of 8,000 characters at most, tells the client why."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message[:_MAX_MESSAGE_CHARS] or code.text

    @property
    def retriable(self) -> bool:
        return self.code.retriable

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
