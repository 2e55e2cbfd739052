"""Kafka's APIs: their keys, where their messages are declared, and which header goes with which version.

A flexible request has header version 2 (with tagged fields), others have 1; a flexible response has header version 1,
others 0; and the response of ApiVersions always has 0, because a client that does not know the broker yet must be able
to read it. Message modules are imported when an API is first asked for.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Literal, NamedTuple

from .errors import UnknownVersion
from .schema import Message, span


class ApiKey(IntEnum):
    """Every API of Kafka 4.3.1, whether this code speaks it or not."""

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


class Api(NamedTuple):
    """One API as it is declared here."""

    versions: range
    """What can be encoded and decoded: Kafka 4.3.1's versions and, of five APIs, the older ones it no longer lists."""
    flexible: range
    """Those of them with compact lengths and tagged fields: always the last ones."""


def _api(versions: str, flexible: str) -> Api:
    all_of_them = span(versions)
    first_flexible = all_of_them.stop if flexible == "none" else span(flexible).start
    return Api(all_of_them, range(first_flexible, all_of_them.stop))


APIS: dict[ApiKey, Api] = {
    ApiKey.PRODUCE: _api("0-13", "9+"),
    ApiKey.FETCH: _api("0-18", "12+"),
    ApiKey.LIST_OFFSETS: _api("0-11", "6+"),
    ApiKey.METADATA: _api("0-13", "9+"),
    ApiKey.OFFSET_COMMIT: _api("0-10", "8+"),
    ApiKey.OFFSET_FETCH: _api("0-10", "6+"),
    ApiKey.FIND_COORDINATOR: _api("0-6", "3+"),
    ApiKey.JOIN_GROUP: _api("0-9", "6+"),
    ApiKey.HEARTBEAT: _api("0-4", "4+"),
    ApiKey.LEAVE_GROUP: _api("0-5", "4+"),
    ApiKey.SYNC_GROUP: _api("0-5", "4+"),
    ApiKey.DESCRIBE_GROUPS: _api("0-6", "5+"),
    ApiKey.LIST_GROUPS: _api("0-5", "3+"),
    ApiKey.API_VERSIONS: _api("0-4", "3+"),
    ApiKey.CREATE_TOPICS: _api("2-7", "5+"),
    ApiKey.DELETE_TOPICS: _api("1-6", "4+"),
    ApiKey.DELETE_RECORDS: _api("0-2", "2+"),
    ApiKey.INIT_PRODUCER_ID: _api("0-6", "2+"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _api("2-4", "4+"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _api("0-5", "3+"),
    ApiKey.ADD_OFFSETS_TO_TXN: _api("0-4", "3+"),
    ApiKey.END_TXN: _api("0-5", "3+"),
    ApiKey.WRITE_TXN_MARKERS: _api("1-2", "1+"),
    ApiKey.TXN_OFFSET_COMMIT: _api("0-5", "3+"),
    ApiKey.DESCRIBE_CONFIGS: _api("1-4", "4+"),
    ApiKey.DESCRIBE_LOG_DIRS: _api("1-5", "2+"),
    ApiKey.ALTER_CONFIGS: _api("0-2", "2+"),
    ApiKey.CREATE_PARTITIONS: _api("0-3", "2+"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _api("0-1", "1+"),
    ApiKey.DELETE_GROUPS: _api("0-2", "2+"),
    ApiKey.OFFSET_DELETE: _api("0", "none"),
    ApiKey.UPDATE_FEATURES: _api("0-2", "0+"),
    ApiKey.DESCRIBE_CLUSTER: _api("0-2", "0+"),
    ApiKey.DESCRIBE_PRODUCERS: _api("0", "0+"),
    ApiKey.LIST_CONFIG_RESOURCES: _api("0-1", "0+"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _api("0", "0+"),
    ApiKey.DESCRIBE_TRANSACTIONS: _api("0", "0+"),
    ApiKey.LIST_TRANSACTIONS: _api("0-2", "0+"),
}
"""The APIs that have a module of their name in messages/. InitProducerId 6 is one that Kafka 4.3.1 does not offer."""


def is_declared(key: int, version: int) -> bool:
    """Whether there is a codec for this version of the API."""
    return version in _declared(key).versions


def request_header_version(key: int, version: int) -> int:
    """1, or 2 where the header ends in tagged fields. Raises UnknownVersion for what is not declared here."""
    api = _declared(key)
    if version not in api.versions:
        raise UnknownVersion(f"API key {key} version {version} is not known")
    return 2 if version in api.flexible else 1


def response_header_version(key: int, version: int) -> int:
    """0, or 1 where the header ends in tagged fields. Raises UnknownVersion as above."""
    plain = request_header_version(key, version) - 1
    return 0 if key == ApiKey.API_VERSIONS else plain


@cache
def message(key: ApiKey, kind: Literal["request", "response"]) -> type[Message]:
    """The class of an API's requests or responses: (ApiKey.HEARTBEAT, "request") -> HeartbeatRequest."""
    module = import_module(f".messages.{key.name.lower()}", __package__)
    name = "".join(word.capitalize() for word in key.name.split("_")) + kind.capitalize()
    return getattr(module, name)


def _declared(key: int) -> Api:
    return _BY_NUMBER.get(key, _UNKNOWN)


_BY_NUMBER: dict[int, Api] = {int(key): api for key, api in APIS.items()}
_UNKNOWN = Api(range(0), range(0))
