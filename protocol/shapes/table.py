"""The shapes of all APIs. tests/protocol/shapes/test_table.py compares them with the declared messages."""

from __future__ import annotations

from functools import cache

from ..apis import AnyKey, ApiKey, OwnApiKey, key_of, message
from ..schema import has_field
from .shape import Items, Kind, Shape

_TEXT = "error_message"


def _by(names: str) -> tuple[tuple[str, str], ...]:
    """Return names of an item and of its result: "name" where both have the same, "topic>name" where not."""
    pairs = (each.partition(">") for each in names.split())
    return tuple((mine, theirs if arrow else mine) for mine, arrow, theirs in pairs)


def _partitions(
    items: str, results: str, names: str, error: str = "error_code", text: str = "", **absent: object
) -> Items:
    return Items(items, results, "partition", _by(names), error, text, tuple(absent.items()))


def _topics(items: str, results: str, names: str, inner: Items) -> Items:
    """Return a list of topics whose partitions have the errors."""
    return Items(items, results, "topic", _by(names), "", inner=inner)


def _set(items: str, results: str, kind: Kind, names: str, text: str = "", **absent: object) -> Items:
    return Items(items, results, kind, _by(names), text=text, absent=tuple(absent.items()), is_set=True)


def _flat(items: str, results: str, kind: Kind, names: str, text: str = _TEXT, **absent: object) -> Shape:
    """Return the shape of an API with one list, whose results have the errors."""
    return Shape((Items(items, results, kind, _by(names), text=text, absent=tuple(absent.items())),))


def _whole(text: str = "", *lists: Items, is_in_each: bool = False, **absent: object) -> Shape:
    """Return the shape of an API whose response has an error of its own."""
    return Shape(lists, "error_code", text, tuple(absent.items()), is_in_each)


_INDEX = "partition_index"
_NAMES = "name topic_id"
_OWN = _whole(_TEXT)
_COMMITTED = Shape((_topics("topics", "topics", _NAMES, _partitions("partitions", "partitions", _INDEX)),))
_FETCHED = _partitions("partition_indexes", "partitions", f">{_INDEX}", committed_offset=-1)
_VERIFIED = _topics(
    "topics",
    "topic_results",
    "name",
    _partitions("partitions", "results_by_partition", f">{_INDEX}", "partition_error_code"),
)
_SHARED = _partitions("partitions", "partitions", _INDEX, text=_TEXT)
_ACQUIRED = _partitions("partitions", "partitions", _INDEX, text=_TEXT, records=b"")
_STATES = Shape(
    (_topics("topics", "results", "topic_id", _partitions("partitions", "partitions", "partition", text=_TEXT)),)
)
_ORDERED = Items("partition_states", "", "partition", _by(_INDEX))
# What the controller tells the brokers of partitions.
_ORDERS = _whole(
    "",
    Items("ungrouped_partition_states", "", "topic", _by("topic_name")),
    Items("topic_states", "", "topic", _by("topic_name topic_id"), inner=_ORDERED),
)
_CONFIGS = "resource_type resource_name"
_USERS = ("other", "name>user")

SHAPES: dict[AnyKey, Shape] = {
    ApiKey.PRODUCE: Shape(
        (
            _topics(
                "topic_data",
                "responses",
                _NAMES,
                _partitions("partition_data", "partition_responses", "index", text=_TEXT, base_offset=-1),
            ),
        )
    ),
    ApiKey.FETCH: _whole(
        "",
        _topics(
            "topics",
            "responses",
            "topic topic_id",
            _partitions("partitions", "partitions", f"partition>{_INDEX}", high_watermark=-1, records=b""),
        ),
    ),
    ApiKey.LIST_OFFSETS: Shape((_topics("topics", "topics", "name", _partitions("partitions", "partitions", _INDEX)),)),
    ApiKey.METADATA: Shape((_set("topics", "topics", "topic", _NAMES),), "error_code", is_in_each=True),
    ApiKey.LEADER_AND_ISR: _ORDERS,
    ApiKey.STOP_REPLICA: _whole(
        "",
        Items("ungrouped_partitions", "", "topic", _by("topic_name")),
        Items("topics", "", "topic", _by("name"), inner=Items("partition_indexes", "", "partition")),
        Items("topic_states", "", "topic", _by("topic_name"), inner=_ORDERED),
    ),
    ApiKey.UPDATE_METADATA: _ORDERS,
    ApiKey.CONTROLLED_SHUTDOWN: _whole(),
    ApiKey.OFFSET_COMMIT: _COMMITTED,
    ApiKey.OFFSET_FETCH: _whole(
        "",
        _topics("topics", "topics", "name", _FETCHED),
        Items(
            "groups",
            "groups",
            "group",
            _by("group_id"),
            inner=_topics("topics", "topics", _NAMES, _FETCHED),
            is_set=True,
        ),
    ),
    ApiKey.FIND_COORDINATOR: _whole(
        _TEXT,
        _set("coordinator_keys", "coordinators", "other", ">key", _TEXT, node_id=-1, port=-1),
        node_id=-1,
        port=-1,
    ),
    ApiKey.JOIN_GROUP: _whole(protocol_name=None),
    ApiKey.HEARTBEAT: _whole(),
    ApiKey.LEAVE_GROUP: _whole("", Items("members", "members", "other", _by("member_id group_instance_id"))),
    ApiKey.SYNC_GROUP: _whole(),
    ApiKey.DESCRIBE_GROUPS: Shape((_set("groups", "groups", "group", ">group_id", _TEXT),)),
    ApiKey.LIST_GROUPS: _whole(),
    ApiKey.SASL_HANDSHAKE: _whole(),
    ApiKey.API_VERSIONS: _whole(),
    ApiKey.CREATE_TOPICS: _flat("topics", "topics", "topic", "name"),
    ApiKey.DELETE_TOPICS: Shape(
        (
            _set("topics", "responses", "topic", _NAMES, _TEXT),
            _set("topic_names", "responses", "topic", ">name", _TEXT),
        )
    ),
    ApiKey.DELETE_RECORDS: Shape(
        (_topics("topics", "topics", "name", _partitions("partitions", "partitions", _INDEX, low_watermark=-1)),)
    ),
    ApiKey.INIT_PRODUCER_ID: _whole(producer_epoch=-1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Shape(
        (_topics("topics", "topics", "topic", _partitions("partitions", "partitions", "partition")),)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _whole(
        "",
        Items(
            "transactions",
            "results_by_transaction",
            "transactional id",
            _by("transactional_id"),
            "",
            inner=_VERIFIED,
        ),
        _topics(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            "name",
            _partitions("partitions", "results_by_partition", f">{_INDEX}", "partition_error_code"),
        ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _whole(),
    ApiKey.END_TXN: _whole(),
    ApiKey.WRITE_TXN_MARKERS: Shape(
        (
            Items(
                "markers",
                "markers",
                "other",
                _by("producer_id"),
                "",
                inner=_topics("topics", "topics", "name", _partitions("partition_indexes", "partitions", f">{_INDEX}")),
            ),
        )
    ),
    ApiKey.TXN_OFFSET_COMMIT: _COMMITTED,
    ApiKey.DESCRIBE_ACLS: _whole(_TEXT),
    ApiKey.CREATE_ACLS: _flat("creations", "results", "other", ""),
    ApiKey.DELETE_ACLS: _flat("filters", "filter_results", "other", ""),
    ApiKey.DESCRIBE_CONFIGS: Shape((_set("resources", "results", "config", _CONFIGS, _TEXT),)),
    ApiKey.ALTER_CONFIGS: _flat("resources", "responses", "config", _CONFIGS),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Shape(
        (
            Items(
                "topics",
                "results",
                "topic",
                _by("name>topic_name"),
                "",
                inner=_partitions("partitions", "partitions", f">{_INDEX}"),
                within="dirs",
            ),
        )
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _whole(
        "", Items("topics", "", "topic", _by("topic"), inner=Items("partitions", "", "partition"))
    ),
    ApiKey.SASL_AUTHENTICATE: _OWN,
    ApiKey.CREATE_PARTITIONS: _flat("topics", "results", "topic", "name"),
    ApiKey.CREATE_DELEGATION_TOKEN: _whole(issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1),
    ApiKey.RENEW_DELEGATION_TOKEN: _whole(expiry_timestamp_ms=-1),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _whole(expiry_timestamp_ms=-1),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _whole(),
    ApiKey.DELETE_GROUPS: Shape((_set("groups_names", "results", "group", ">group_id", _TEXT),)),
    ApiKey.ELECT_LEADERS: _whole(
        "",
        _topics(
            "topic_partitions",
            "replica_election_results",
            "topic",
            _partitions("partitions", "partition_result", ">partition_id", text=_TEXT),
        ),
        is_in_each=True,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _flat("resources", "responses", "config", _CONFIGS),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(
        _TEXT,
        _topics("topics", "responses", "name", _partitions("partitions", "partitions", _INDEX, text=_TEXT)),
        is_in_each=True,
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(
        _TEXT,
        _topics("topics", "topics", "name", _partitions("partition_indexes", "partitions", f">{_INDEX}", "")),
        is_in_each=True,
    ),
    ApiKey.OFFSET_DELETE: _whole(
        "", _topics("topics", "topics", "name", _partitions("partitions", "partitions", _INDEX))
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _whole(_TEXT, entries=None),
    ApiKey.ALTER_CLIENT_QUOTAS: _flat("entries", "entries", "other", "entity"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(
        _TEXT, _set("users", "results", *_USERS, text=_TEXT), is_in_each=True
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Shape(
        (_set("deletions", "results", *_USERS, text=_TEXT), _set("upsertions", "results", *_USERS, text=_TEXT))
    ),
    ApiKey.DESCRIBE_QUORUM: _whole(
        _TEXT, Items("topics", "", "topic", _by("topic_name"), inner=Items("partitions", "", "partition", _by(_INDEX)))
    ),
    ApiKey.ALTER_PARTITION: _whole(
        "",
        _topics("topics", "topics", "topic_name topic_id", _partitions("partitions", "partitions", _INDEX)),
    ),
    ApiKey.UPDATE_FEATURES: _whole(_TEXT, Items("feature_updates", "results", "other", _by("feature"), text=_TEXT)),
    ApiKey.DESCRIBE_CLUSTER: _whole(_TEXT),
    ApiKey.DESCRIBE_PRODUCERS: Shape(
        (_topics("topics", "topics", "name", _partitions("partition_indexes", "partitions", f">{_INDEX}", text=_TEXT)),)
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Shape(
        (_set("transactional_ids", "transaction_states", "transactional id", ">transactional_id"),)
    ),
    ApiKey.LIST_TRANSACTIONS: _whole(),
    ApiKey.ALLOCATE_PRODUCER_IDS: _whole(),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _whole(
        _TEXT, Items("topic_partitions", "", "topic", _by("topic_id"), inner=Items("partitions", "", "partition"))
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Shape((_set("group_ids", "groups", "group", ">group_id", _TEXT),)),
    ApiKey.LIST_CONFIG_RESOURCES: _whole(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _flat("topics", "topics", "topic", "name", ""),
    ApiKey.SHARE_GROUP_HEARTBEAT: _OWN,
    ApiKey.SHARE_GROUP_DESCRIBE: Shape((_set("group_ids", "groups", "group", ">group_id", _TEXT),)),
    ApiKey.SHARE_FETCH: _whole(_TEXT, _topics("topics", "responses", "topic_id", _ACQUIRED)),
    ApiKey.SHARE_ACKNOWLEDGE: _whole(_TEXT, _topics("topics", "responses", "topic_id", _SHARED)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _STATES,
    ApiKey.READ_SHARE_GROUP_STATE: _STATES,
    ApiKey.WRITE_SHARE_GROUP_STATE: _STATES,
    ApiKey.DELETE_SHARE_GROUP_STATE: _STATES,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _STATES,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Shape(
        (
            Items(
                "groups",
                "groups",
                "group",
                _by("group_id"),
                text=_TEXT,
                inner=_topics(
                    "topics",
                    "topics",
                    "topic_name",
                    _partitions("partitions", "partitions", f">{_INDEX}", text=_TEXT, start_offset=-1),
                ),
            ),
        )
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _whole(
        _TEXT,
        _topics("topics", "responses", "topic_name", _partitions("partitions", "partitions", _INDEX, text=_TEXT)),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _whole(
        _TEXT, Items("topics", "responses", "topic", _by("topic_name"), text=_TEXT)
    ),
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
