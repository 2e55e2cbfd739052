"""Kafka's API keys and our own, and the message classes of each API.

The module of an API is imported when one of its messages is first used. The versions of an API stand on its request:
`message(ApiKey.HEARTBEAT, "request").VERSIONS`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Literal

from .schema import Message

# Our own keys begin here. Kafka counts its keys from 0, and keys are int16.
FIRST_OWN_KEY = 30_000


class ApiKey(IntEnum):
    """Every API of Kafka 4.4.0, also those that Odradek does not implement."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class OwnApiKey(IntEnum):
    """The APIs that Odradek alone has. Kafka's keys stop below 100, these begin at 30000 (decision 20)."""

    ODRADEK_JOIN_QUERY = 30000
    ODRADEK_END_QUERY_BATCH = 30001
    ODRADEK_DESCRIBE_QUERIES = 30002
    ODRADEK_LEASE_SEGMENTS = 30_010
    ODRADEK_RENEW_LEASE = 30_011
    ODRADEK_BEGIN_BACKUP = 30_012
    ODRADEK_DESCRIBE_BROKER = 30_013


AnyKey = ApiKey | OwnApiKey

_KEYS: dict[int, AnyKey] = {int(key): key for keys in (ApiKey, OwnApiKey) for key in keys}


def key_of(number: int) -> AnyKey:
    """Return the key with this number. KeyError if there is none."""
    return _KEYS[number]


@cache
def message(key: int, kind: Literal["request", "response"]) -> type[Message]:
    """Return the class of an API's requests or responses: (ApiKey.HEARTBEAT, "request") -> HeartbeatRequest.

    KeyError for a number that is no API's.
    """
    api = key_of(key).name
    module = import_module(f".messages.{api.lower()}", __package__)
    return getattr(module, "".join(word.capitalize() for word in api.split("_")) + kind.capitalize())


def request_class(key: int) -> type[Message] | None:
    """Return the class of an API's requests; None for a key that messages/ has no module for."""
    return _request_class(_KEYS[key]) if key in _KEYS else None


@cache
def _request_class(key: AnyKey) -> type[Message] | None:
    """Find the class of `request_class`, once for each key: a failed import searches every folder of the path."""
    try:
        return message(key, "request")
    except ModuleNotFoundError:
        return None
