"""The shapes of all APIs. tests/protocol/shapes/test_table.py compares them with the declared messages."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..apis import AnyKey, ApiKey, OwnApiKey, key_of, message
from ..schema import has_field
from .shape import Items, Kind, Shape

_TEXT = "error_message"


def _by(names: str) -> tuple[tuple[str, str], ...]:
    """Return names of an item and of its result: "name" where both have the same, "topic>name" where not."""
    pairs = (each.partition(">") for each in names.split())
    return tuple((mine, theirs if arrow else mine) for mine, arrow, theirs in pairs)


def _list(
    lists: str,
    kind: Kind,
    names: str = "",
    error: str = "error_code",
    text: str = "",
    inner: Items | None = None,
    *,
    is_set: bool = False,
    within: str = "",
    **absent: Any,
) -> Items:
    """Return a list of a request. `lists` is written as names are: "topics>responses", "topics>" for no results."""
    ((items, results),) = _by(lists)
    return Items(items, results, kind, _by(names), error, text, tuple(absent.items()), inner, is_set, within)


def _partitions(lists: str, names: str, error: str = "error_code", text: str = "", **absent: Any) -> Items:
    return _list(lists, "partition", names, error, text, **absent)


def _topics(lists: str, names: str, inner: Items) -> Items:
    """Return a list of topics whose partitions have the errors."""
    return _list(lists, "topic", names, "", inner=inner)


def _set(lists: str, kind: Kind, names: str, text: str = "", **absent: Any) -> Items:
    return _list(lists, kind, names, text=text, is_set=True, **absent)


def _each(*lists: Items) -> Shape:
    """Return the shape of an API in whose responses only results have errors."""
    return Shape(lists)


def _whole(text: str = "", *lists: Items, is_in_each: bool = False, **absent: Any) -> Shape:
    """Return the shape of an API whose response has an error of its own."""
    return Shape(lists, "error_code", text, tuple(absent.items()), is_in_each)


_INDEX = "partition_index"
_NAMES = "name topic_id"
_OWN = _whole(_TEXT)
_COMMITTED = _each(_topics("topics", _NAMES, _partitions("partitions", _INDEX)))
_FETCHED = _partitions("partition_indexes>partitions", f">{_INDEX}", committed_offset=-1)
_ADDED = "partitions>results_by_partition", f">{_INDEX}", "partition_error_code"
_STATES = _each(_topics("topics>results", "topic_id", _partitions("partitions", "partition", text=_TEXT)))
_ORDERED = _list("partition_states>", "partition", _INDEX)
# What the controller tells the brokers of partitions.
_ORDERS = _whole(
    "",
    _list("ungrouped_partition_states>", "topic", "topic_name"),
    _list("topic_states>", "topic", "topic_name topic_id", inner=_ORDERED),
)
_CONFIGS = "config", "resource_type resource_name"
_USERS = "other", "name>user", _TEXT
_GROUPS = "group", ">group_id", _TEXT

SHAPES: dict[AnyKey, Shape] = {
    ApiKey.PRODUCE: _each(
        _topics(
            "topic_data>responses",
            _NAMES,
            _partitions("partition_data>partition_responses", "index", text=_TEXT, base_offset=-1),
        )
    ),
    ApiKey.FETCH: _whole(
        "",
        _topics(
            "topics>responses",
            "topic topic_id",
            _partitions("partitions", f"partition>{_INDEX}", high_watermark=-1, records=b""),
        ),
    ),
    ApiKey.LIST_OFFSETS: _each(_topics("topics", "name", _partitions("partitions", _INDEX))),
    ApiKey.METADATA: Shape((_set("topics", "topic", _NAMES),), "error_code", is_in_each=True),
    ApiKey.LEADER_AND_ISR: _ORDERS,
    ApiKey.STOP_REPLICA: _whole(
        "",
        _list("ungrouped_partitions>", "topic", "topic_name"),
        _list("topics>", "topic", "name", inner=_list("partition_indexes>", "partition")),
        _list("topic_states>", "topic", "topic_name", inner=_ORDERED),
    ),
    ApiKey.UPDATE_METADATA: _ORDERS,
    ApiKey.CONTROLLED_SHUTDOWN: _whole(),
    ApiKey.OFFSET_COMMIT: _COMMITTED,
    ApiKey.OFFSET_FETCH: _whole(
        "",
        _topics("topics", "name", _FETCHED),
        _list("groups", "group", "group_id", inner=_topics("topics", _NAMES, _FETCHED), is_set=True),
    ),
    ApiKey.FIND_COORDINATOR: _whole(
        _TEXT, _set("coordinator_keys>coordinators", "other", ">key", _TEXT, node_id=-1, port=-1), node_id=-1, port=-1
    ),
    ApiKey.JOIN_GROUP: _whole(protocol_name=None),
    ApiKey.HEARTBEAT: _whole(),
    ApiKey.LEAVE_GROUP: _whole("", _list("members", "other", "member_id group_instance_id")),
    ApiKey.SYNC_GROUP: _whole(),
    ApiKey.DESCRIBE_GROUPS: _each(_set("groups", *_GROUPS)),
    ApiKey.LIST_GROUPS: _whole(),
    ApiKey.SASL_HANDSHAKE: _whole(),
    ApiKey.API_VERSIONS: _whole(),
    ApiKey.CREATE_TOPICS: _each(_list("topics", "topic", "name", text=_TEXT)),
    ApiKey.DELETE_TOPICS: _each(
        _set("topics>responses", "topic", _NAMES, _TEXT), _set("topic_names>responses", "topic", ">name", _TEXT)
    ),
    ApiKey.DELETE_RECORDS: _each(_topics("topics", "name", _partitions("partitions", _INDEX, low_watermark=-1))),
    ApiKey.INIT_PRODUCER_ID: _whole(producer_epoch=-1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _each(_topics("topics", "topic", _partitions("partitions", "partition"))),
    ApiKey.ADD_PARTITIONS_TO_TXN: _whole(
        "",
        _list(
            "transactions>results_by_transaction",
            "transactional id",
            "transactional_id",
            "",
            inner=_topics("topics>topic_results", "name", _partitions(*_ADDED)),
        ),
        _topics("v3_and_below_topics>results_by_topic_v3_and_below", "name", _partitions(*_ADDED)),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _whole(),
    ApiKey.END_TXN: _whole(),
    ApiKey.WRITE_TXN_MARKERS: _each(
        _list(
            "markers",
            "other",
            "producer_id",
            "",
            inner=_topics("topics", "name", _partitions("partition_indexes>partitions", f">{_INDEX}")),
        )
    ),
    ApiKey.TXN_OFFSET_COMMIT: _COMMITTED,
    ApiKey.DESCRIBE_ACLS: _whole(_TEXT),
    ApiKey.CREATE_ACLS: _each(_list("creations>results", "other", text=_TEXT)),
    ApiKey.DELETE_ACLS: _each(_list("filters>filter_results", "other", text=_TEXT)),
    ApiKey.DESCRIBE_CONFIGS: _each(_set("resources>results", *_CONFIGS, _TEXT)),
    ApiKey.ALTER_CONFIGS: _each(_list("resources>responses", *_CONFIGS, text=_TEXT)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _each(
        _list(
            "topics>results",
            "topic",
            "name>topic_name",
            "",
            inner=_partitions("partitions", f">{_INDEX}"),
            within="dirs",
        )
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _whole("", _list("topics>", "topic", "topic", inner=_list("partitions>", "partition"))),
    ApiKey.SASL_AUTHENTICATE: _OWN,
    ApiKey.CREATE_PARTITIONS: _each(_list("topics>results", "topic", "name", text=_TEXT)),
    ApiKey.CREATE_DELEGATION_TOKEN: _whole(issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1),
    ApiKey.RENEW_DELEGATION_TOKEN: _whole(expiry_timestamp_ms=-1),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _whole(expiry_timestamp_ms=-1),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _whole(),
    ApiKey.DELETE_GROUPS: _each(_set("groups_names>results", *_GROUPS)),
    ApiKey.ELECT_LEADERS: _whole(
        "",
        _topics(
            "topic_partitions>replica_election_results",
            "topic",
            _partitions("partitions>partition_result", ">partition_id", text=_TEXT),
        ),
        is_in_each=True,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _each(_list("resources>responses", *_CONFIGS, text=_TEXT)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(
        _TEXT, _topics("topics>responses", "name", _partitions("partitions", _INDEX, text=_TEXT)), is_in_each=True
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(
        _TEXT, _topics("topics", "name", _partitions("partition_indexes>partitions", f">{_INDEX}", "")), is_in_each=True
    ),
    ApiKey.OFFSET_DELETE: _whole("", _topics("topics", "name", _partitions("partitions", _INDEX))),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _whole(_TEXT, entries=None),
    ApiKey.ALTER_CLIENT_QUOTAS: _each(_list("entries", "other", "entity", text=_TEXT)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(_TEXT, _set("users>results", *_USERS), is_in_each=True),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _each(_set("deletions>results", *_USERS), _set("upsertions>results", *_USERS)),
    ApiKey.DESCRIBE_QUORUM: _whole(
        _TEXT, _list("topics>", "topic", "topic_name", inner=_list("partitions>", "partition", _INDEX))
    ),
    ApiKey.ALTER_PARTITION: _whole("", _topics("topics", "topic_name topic_id", _partitions("partitions", _INDEX))),
    ApiKey.UPDATE_FEATURES: _whole(_TEXT, _list("feature_updates>results", "other", "feature", text=_TEXT)),
    ApiKey.DESCRIBE_CLUSTER: _whole(_TEXT),
    ApiKey.DESCRIBE_PRODUCERS: _each(
        _topics("topics", "name", _partitions("partition_indexes>partitions", f">{_INDEX}", text=_TEXT))
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: _each(
        _set("transactional_ids>transaction_states", "transactional id", ">transactional_id")
    ),
    ApiKey.LIST_TRANSACTIONS: _whole(),
    ApiKey.ALLOCATE_PRODUCER_IDS: _whole(),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _whole(
        _TEXT, _list("topic_partitions>", "topic", "topic_id", inner=_list("partitions>", "partition"))
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _each(_set("group_ids>groups", *_GROUPS)),
    ApiKey.LIST_CONFIG_RESOURCES: _whole(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _each(_list("topics", "topic", "name")),
    ApiKey.SHARE_GROUP_HEARTBEAT: _OWN,
    ApiKey.SHARE_GROUP_DESCRIBE: _each(_set("group_ids>groups", *_GROUPS)),
    ApiKey.SHARE_FETCH: _whole(
        _TEXT, _topics("topics>responses", "topic_id", _partitions("partitions", _INDEX, text=_TEXT, records=b""))
    ),
    ApiKey.SHARE_ACKNOWLEDGE: _whole(
        _TEXT, _topics("topics>responses", "topic_id", _partitions("partitions", _INDEX, text=_TEXT))
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _STATES,
    ApiKey.READ_SHARE_GROUP_STATE: _STATES,
    ApiKey.WRITE_SHARE_GROUP_STATE: _STATES,
    ApiKey.DELETE_SHARE_GROUP_STATE: _STATES,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _STATES,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _each(
        _list(
            "groups",
            "group",
            "group_id",
            text=_TEXT,
            inner=_topics("topics", "topic_name", _partitions("partitions", f">{_INDEX}", text=_TEXT, start_offset=-1)),
        )
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _whole(
        _TEXT, _topics("topics>responses", "topic_name", _partitions("partitions", _INDEX, text=_TEXT))
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _whole(_TEXT, _list("topics>responses", "topic", "topic_name", text=_TEXT)),
    OwnApiKey.ODRADEK_JOIN_QUERY: _OWN,
    OwnApiKey.ODRADEK_END_QUERY_BATCH: _OWN,
    OwnApiKey.ODRADEK_DESCRIBE_QUERIES: _whole(),
    OwnApiKey.ODRADEK_LEASE_SEGMENTS: _OWN,
    OwnApiKey.ODRADEK_RENEW_LEASE: _whole(),
    OwnApiKey.ODRADEK_BEGIN_BACKUP: _OWN,
    OwnApiKey.ODRADEK_DESCRIBE_BROKER: _OWN,
}


@cache
def lists_in(key: int, version: int) -> tuple[Items, ...]:
    """Return the lists that requests of a version have and responses answer."""
    api = key_of(key)
    request, response = message(api, "request"), message(api, "response")
    return tuple(
        each
        for each in SHAPES[api].lists
        if has_field(request, each.within or each.items, version) and has_field(response, each.results, version)
    )
