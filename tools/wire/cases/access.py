"""What each API answers a client that may do nothing, one thing, or everything: the matrix of ACLs.

Only for brokers with an authorizer, and with these configs, so that two clients without TLS and SASL differ by their
addresses: `allow.everyone.if.no.acl.found=true`, and a listener on every interface. The records have old timestamps:
`log.initial.task.delay.ms=86400000` has Kafka delete none of them meanwhile. The client at 127.0.0.1 may do everything.
A stranger at 127.0.0.2 gets one right after the other on what is named "mine".
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from odradek.protocol.errors import EncodeError

from ..batches import batch
from ..connection import Wire
from ..plain import message_class
from . import access_groups
from .topics import create, topic_id

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED, ALLOW = 3, 4, 3
STRANGER = "127.0.0.2"
OPERATIONS = {
    "all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8, "cluster action": 9,
    "describe configs": 10, "alter configs": 11, "idempotent write": 12,
}  # fmt: skip
CLUSTER_ONLY = ("cluster action", "idempotent write")
Bodies = list[tuple[str, str, dict[str, Any]]]


def run(wire: Wire) -> None:
    wire.ask("set-up", "CreateAcls", 2, {"Creations": [_acl(kind, "*", 2, "127.0.0.1") for kind in (2, 3, 5)]})
    wire.ask("set-up", "CreateAcls", 2, {"Creations": [_acl(CLUSTER, "kafka-cluster", 2, "127.0.0.1")]})
    stranger = wire.twin(STRANGER)
    versions = {each["ApiKey"]: each for each in wire.quiet.ask("", "ApiVersions", 3, _software())["ApiKeys"]}
    world = _set_up(wire)
    members = access_groups.Members(
        Wire(f"{wire.address[0]}:{wire.address[1]}", wire.prefix),
        [f"{wire.prefix}-{each}" for each in ("mine", "other")],
    )
    members.await_assignments()
    for scope in ("none", "mine", "cluster"):
        for name, operation in OPERATIONS.items():
            if (scope == "none" and name != "all") or (scope == "mine" and name in CLUSTER_ONLY):
                continue
            acls = _rights(wire, scope, operation)
            wire.ask("grant", "CreateAcls", 2, {"Creations": acls})
            _until_granted(wire, len(acls))
            members.heartbeat()
            world |= _doomed(wire)
            for case, api, body in _requests(wire, world, f"{scope} {name}", members.groups):
                offered = versions[message_class(api, "request").KEY]
                highest = min(offered["MaxVersion"], message_class(api, "request").VERSIONS[-1])
                for version in sorted({max(offered["MinVersion"], _lowest(api)), highest}):
                    _ask(stranger, f"{scope} {name}: {case}", api, version, _fitting(api, version, body))
            wire.ask("revoke", "DeleteAcls", 2, {"Filters": [_filter()]})
            _until_granted(wire, 0)
    stranger.close()


def _ask(wire: Wire, case: str, api: str, version: int, body: dict[str, Any]) -> None:
    """Ask, unless the version cannot say it."""
    with suppress(EncodeError):
        wire.ask(case, api, version, body)


def _software() -> dict[str, Any]:
    return {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"}


def _acl(kind: int, name: str, operation: int, host: str, pattern: int = LITERAL) -> dict[str, Any]:
    return {
        "ResourceType": kind, "ResourceName": name, "ResourcePatternType": pattern, "Principal": "User:ANONYMOUS",
        "Host": host, "Operation": operation, "PermissionType": ALLOW,
    }  # fmt: skip


def _filter() -> dict[str, Any]:
    return {
        "ResourceTypeFilter": 1, "ResourceNameFilter": None, "PatternTypeFilter": 1, "PrincipalFilter": None,
        "HostFilter": STRANGER, "Operation": 1, "PermissionType": 1,
    }  # fmt: skip


def _rights(wire: Wire, scope: str, operation: int) -> list[dict[str, Any]]:
    if scope == "cluster":
        return [_acl(CLUSTER, "kafka-cluster", operation, STRANGER)]
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID) if scope == "mine" else ()
    return [_acl(kind, f"{wire.prefix}-mine", operation, STRANGER, PREFIXED) for kind in kinds]


def _until_granted(wire: Wire, count: int) -> None:
    """A change is answered before every cache has it."""
    wire.until(lambda told: sum(len(each["Acls"]) for each in told["Resources"]) == count, "DescribeAcls", 2, _filter())


def _set_up(wire: Wire) -> dict[str, Any]:
    """Make topics and a group with offsets, mine and another's, without recording it. Return the topics' ids."""
    for name in ("mine", "other"):
        topic = create(wire, name)
        wire.quiet.ask("", "Produce", 8, {"Acks": -1, "TimeoutMs": 1000, "TopicData": [_data(topic)]})
        for key_type in (0, 1):
            wire.until(_is_well, "FindCoordinator", 3, {"Key": topic, "KeyType": key_type})
        offsets = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1}]}]
        body = {"GroupId": topic, "GenerationIdOrMemberEpoch": -1, "Topics": offsets}
        wire.until(lambda told: _is_well(told["Topics"][0]["Partitions"][0]), "OffsetCommit", 6, body)
    ids = {name: topic_id(wire, f"{wire.prefix}-{name}") for name in ("mine", "other")}
    access_groups.await_share_coordinator(wire, ids)
    wire.until(_is_well, "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1000})
    return ids


def _is_well(told: dict[str, Any]) -> bool:
    return not told["ErrorCode"]


def _doomed(wire: Wire) -> dict[str, Any]:
    """Return the ids of topics that those who may delete topics delete. Each stage makes them again."""
    names = [create(wire, f"{each}-doomed") for each in ("mine", "other")]
    return {name: topic_id(wire, name) for name in names}


def _new(name: str) -> dict[str, Any]:
    return {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}


def _data(topic: str, **rest: Any) -> dict[str, Any]:
    return {"Name": topic, "PartitionData": [{"Index": 0, "Records": batch([b"v"])}], **rest}


def _lowest(api: str) -> int:
    # Kafka 4 has no older ones.
    return {"Produce": 3, "Fetch": 4, "ListOffsets": 1, "Metadata": 4, "OffsetCommit": 2, "OffsetFetch": 1}.get(api, 0)


def _fitting(api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body for a version: topics by id where it has no names any more."""
    by_id = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}.get(api, 1000)
    return _by_id(body) if version >= by_id else body


def _by_id(value: Any) -> Any:
    if isinstance(value, list):
        return [_by_id(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _by_id(each) for key, each in value.items() if not (key in ("Name", "Topic") and "TopicId" in value)}


def _requests(wire: Wire, world: dict[str, Any], stage: str, groups: list[str]) -> Bodies:
    names = {"mine": f"{wire.prefix}-mine", "other": f"{wire.prefix}-other"}
    ids = {name: {"TopicId": world[each]} for each, name in names.items()}
    both = list(names.values())
    gone = [f"{name}-gone" for name in both]
    return [
        *_of_topics(both, gone, ids, stage),
        *_of_doomed([f"{each}-doomed" for each in both], world),
        *_of_groups(both, ids),
        *_of_transactions(both, ids),
        *_of_cluster(both),
        *access_groups.bodies(both, ids, groups),
    ]


def _of_topics(both: list[str], gone: list[str], ids: dict[str, Any], stage: str) -> Bodies:
    every = both + gone
    partitions = [{"PartitionIndex": 0}]
    nothing = "a5b4c3d2-0000-4000-8000-000000000001"
    found: Bodies = [
        ("topics", "Produce", {"Acks": -1, "TimeoutMs": 1000, "TopicData": [
            _data(each, **ids[each]) for each in both
        ]}),
        ("topics", "Fetch", {"MaxBytes": 1000, "SessionEpoch": -1, "Topics": [
            {"Topic": each, **ids[each], "Partitions": [{"Partition": 0, "PartitionMaxBytes": 10}]} for each in both
        ]}),
        ("as a follower", "Fetch", {"MaxBytes": 1000, "SessionEpoch": -1, "ReplicaId": 7, "ReplicaState": {
            "ReplicaId": 7, "ReplicaEpoch": -1}, "Topics": [
            {"Topic": each, **ids[each], "Partitions": [{"Partition": 5, "PartitionMaxBytes": 10}]} for each in both
        ]}),
        ("topics", "ListOffsets", {"ReplicaId": -1, "Topics": [
            {"Name": each, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]} for each in every
        ]}),
        ("all", "Metadata", {"Topics": None, "IncludeTopicAuthorizedOperations": True,
                             "IncludeClusterAuthorizedOperations": True}),
        ("named", "Metadata", {"Topics": [{"Name": each} for each in every], "AllowAutoTopicCreation": False,
                               "IncludeTopicAuthorizedOperations": True}),
        ("created", "Metadata", {"Topics": [{"Name": f"{each}-{stage.replace(' ', '')}"} for each in gone],
                                 "AllowAutoTopicCreation": True}),
        ("new", "CreateTopics", {"Topics": [_new(f"{each}-new") for each in both], "timeoutMs": 5000,
                                 "validateOnly": True}),
        ("twice", "CreateTopics", {"Topics": [_new(gone[1]), _new(gone[1])], "timeoutMs": 5000, "validateOnly": True}),
        ("gone", "DeleteTopics", {"Topics": [{"Name": each} for each in gone], "TopicNames": gone, "TimeoutMs": 5000}),
        ("no such id", "DeleteTopics", {"Topics": [{"Name": None, "TopicId": nothing}], "TopicNames": gone,
                                        "TimeoutMs": 5000}),
        ("topics", "DeleteRecords", {"TimeoutMs": 5000, "Topics": [
            {"Name": each, "Partitions": [{"PartitionIndex": 0, "Offset": 0}]} for each in every
        ]}),
        ("topics", "OffsetForLeaderEpoch", {"ReplicaId": -1, "Topics": [
            {"Topic": each, "Partitions": [{"Partition": 0, "LeaderEpoch": 0}]} for each in every
        ]}),
        ("topics", "CreatePartitions", {"TimeoutMs": 5000, "ValidateOnly": True, "Topics": [
            {"Name": each, "Count": 2, "Assignments": None} for each in every
        ]}),
        ("topics", "DescribeProducers", {"Topics": [{"Name": each, "PartitionIndexes": [0]} for each in every]}),
        ("named", "DescribeTopicPartitions", {"Topics": [{"Name": each} for each in every],
                                              "ResponsePartitionLimit": 100}),
        *_of_configs(both, every),
        ("topics", "ElectLeaders", {"TopicPartitions": [{"Topic": each, "Partitions": [0]} for each in both]}),
        ("topics", "AlterPartitionReassignments", {"TimeoutMs": 5000, "Topics": [
            {"Name": each, "Partitions": [{**partitions[0], "Replicas": [99]}]} for each in both
        ]}),
        ("topics", "ListPartitionReassignments", {"TimeoutMs": 5000, "Topics": [
            {"Name": each, "PartitionIndexes": [0]} for each in both
        ]}),
    ]  # fmt: skip
    by_id = [{"Name": None, **ids[each]} for each in both] + [{"Name": None, "TopicId": nothing}]
    one_partition = {"Topics": [{"Name": each} for each in reversed(every)], "ResponsePartitionLimit": 1}
    return [
        *found,
        ("by id", "Metadata", {"Topics": by_id, "AllowAutoTopicCreation": False}),
        ("one partition", "DescribeTopicPartitions", one_partition),
    ]


def _of_doomed(doomed: list[str], world: dict[str, Any]) -> Bodies:
    by_id = [{"Name": None, "TopicId": world[each]} for each in doomed]
    return [
        ("by id", "DeleteTopics", {"Topics": by_id, "TopicNames": [], "TimeoutMs": 5000}),
        ("by name", "DeleteTopics", {"Topics": [{"Name": each} for each in doomed], "TopicNames": doomed,
                                     "TimeoutMs": 5000}),
    ]  # fmt: skip


def _of_configs(both: list[str], every: list[str]) -> Bodies:
    return [
        ("resources", "DescribeConfigs", {"Resources": [
            *({"ResourceType": 2, "ResourceName": each, "ConfigurationKeys": ["retention.ms"]} for each in every),
            {"ResourceType": 32, "ResourceName": both[0], "ConfigurationKeys": []},
            {"ResourceType": 32, "ResourceName": both[1], "ConfigurationKeys": []},
            {"ResourceType": 4, "ResourceName": "1", "ConfigurationKeys": ["log.retention.ms"]},
        ]}),
        ("resources", "AlterConfigs", {"ValidateOnly": True, "Resources": [
            *({"ResourceType": 2, "ResourceName": each, "Configs": [{"Name": "retention.ms", "Value": "9999"}]}
              for each in every),
            *({"ResourceType": 32, "ResourceName": each, "Configs": []} for each in both),
            {"ResourceType": 4, "ResourceName": "1", "Configs": []},
        ]}),
        ("resources", "IncrementalAlterConfigs", {"ValidateOnly": True, "Resources": [
            *({"ResourceType": 2, "ResourceName": each, "Configs": [
                {"Name": "retention.ms", "ConfigOperation": 0, "Value": "9999"}]} for each in every),
            *({"ResourceType": 32, "ResourceName": each, "Configs": []} for each in both),
            {"ResourceType": 4, "ResourceName": "1", "Configs": [
                {"Name": "message.max.bytes", "ConfigOperation": 0, "Value": "1048588"}]},
        ]}),
    ]  # fmt: skip


def _of_groups(both: list[str], ids: dict[str, Any]) -> Bodies:
    topics = [{"Name": each, **ids[each], "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 2}]} for each in both]
    named = [{"Name": each, "PartitionIndexes": [0]} for each in both]
    indexes = [{"Name": each, **ids[each], "PartitionIndexes": [0]} for each in both]
    found: Bodies = [
        ("all", "ListGroups", {}),
        ("groups", "DescribeGroups", {"Groups": both, "IncludeAuthorizedOperations": True}),
        ("groups", "DeleteGroups", {"GroupsNames": [f"{each}-gone" for each in both]}),
        ("several groups", "FindCoordinator", {"Key": both[1], "KeyType": 0, "CoordinatorKeys": both}),
        ("several ids", "FindCoordinator", {"Key": both[1], "KeyType": 1, "CoordinatorKeys": both}),
        ("share", "FindCoordinator", {"Key": both[1], "KeyType": 2, "CoordinatorKeys": both}),
    ]
    for group, which in zip(both, ("mine", "other"), strict=True):
        member = {"GroupId": group, "GenerationId": 3, "MemberId": "m", "GenerationIdOrMemberEpoch": -1}
        found += [
            (which, "OffsetCommit", {"GroupId": group, "GenerationIdOrMemberEpoch": -1, "Topics": topics}),
            (which, "OffsetFetch", {"GroupId": group, "Topics": named, "Groups": [
                {"GroupId": group, "Topics": indexes}]}),
            (f"{which}, all", "OffsetFetch", {"GroupId": group, "Topics": None, "Groups": [
                {"GroupId": group, "Topics": None}]}),
            (which, "JoinGroup", {"GroupId": group, "SessionTimeoutMs": 10, "MemberId": "", "ProtocolType": "consumer",
                                  "Protocols": [{"Name": "range", "Metadata": b""}], "RebalanceTimeoutMs": 10}),
            (which, "SyncGroup", {**member, "Assignments": [], "ProtocolType": "c", "ProtocolName": "range"}),
            (which, "Heartbeat", member),
            (which, "LeaveGroup", {**member, "Members": [{"MemberId": "m"}]}),
            (which, "OffsetDelete", {"GroupId": group, "Topics": [
                {"Name": f"{each}-gone", "Partitions": [{"PartitionIndex": 0}]} for each in both]}),
        ]  # fmt: skip
    return [
        (case, api, {key: value for key, value in body.items() if key in _FIELDS.get(api, body)})
        for case, api, body in found
    ]


_MEMBER = ("GroupId", "GenerationId", "MemberId")
_FIELDS = {
    "SyncGroup": (*_MEMBER, "Assignments", "ProtocolType", "ProtocolName"),
    "Heartbeat": _MEMBER,
    "LeaveGroup": ("GroupId", "MemberId", "Members"),
}


def _of_transactions(both: list[str], ids: dict[str, Any]) -> Bodies:
    found: Bodies = [
        ("no id", "InitProducerId", {"TransactionalId": None, "TransactionTimeoutMs": 1000}),
        ("ids", "DescribeTransactions", {"TransactionalIds": both}),
        ("all", "ListTransactions", {}),
        ("markers", "WriteTxnMarkers", {"Markers": [{"ProducerId": 12345, "ProducerEpoch": 0, "TransactionResult": True,
            "CoordinatorEpoch": 0, "Topics": [{"Name": both[0], "PartitionIndexes": [9]}]}]}),
    ]  # fmt: skip
    for id, which in zip(both, ("mine", "other"), strict=True):
        of_id = {"TransactionalId": id, "ProducerId": 999_999, "ProducerEpoch": 0}
        transactional = batch([b"v"], attributes=0x10, producer=(999_999, 0, 0))
        found += [
            (which, "AddOffsetsToTxn", {**of_id, "GroupId": both[0]}),
            (f"{which}, other group", "AddOffsetsToTxn", {**of_id, "GroupId": both[1]}),
            (which, "EndTxn", {**of_id, "Committed": True}),
            (which, "TxnOffsetCommit", {**of_id, "GroupId": both[0], "Topics": [
                {"Name": each, **ids[each],
                 "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}]}
                for each in both]}),
            (which, "Produce", {"Acks": -1, "TimeoutMs": 1000, "TransactionalId": id, "TopicData": [
                {"Name": each, **ids[each], "PartitionData": [{"Index": 7, "Records": transactional}]}
                for each in both]}),
            (which, "AddPartitionsToTxn", {"V3AndBelowTransactionalId": id, "V3AndBelowProducerId": 999_999,
                "V3AndBelowProducerEpoch": 0, "V3AndBelowTopics": [
                {"Name": each, "Partitions": [0]} for each in both], "Transactions": [
                {"TransactionalId": id, "ProducerId": 999_999, "ProducerEpoch": 0, "VerifyOnly": True, "Topics": []}]}),
        ]  # fmt: skip
    unknown = [{"Name": each, "Partitions": [0]} for each in (*both, f"{both[0]}-gone")]
    found += [
        (f"{which}, unknown", "AddPartitionsToTxn", {"V3AndBelowTransactionalId": id, "V3AndBelowProducerId": 999_999,
            "V3AndBelowProducerEpoch": 0, "V3AndBelowTopics": unknown, "Transactions": [
                {"TransactionalId": id, "ProducerId": 999_999, "ProducerEpoch": 0, "VerifyOnly": True, "Topics": []}]})
        for id, which in zip(both, ("mine", "other"), strict=True)
    ]  # fmt: skip
    found.append(("other", "InitProducerId", {"TransactionalId": both[1], "TransactionTimeoutMs": 1000}))
    return [each for each in found if not (each[1] == "Produce" and "TransactionalId" not in each[2])]


def _of_cluster(both: list[str]) -> Bodies:
    wanted = {**_filter(), "HostFilter": "10.9.8.7"}
    return [
        ("operations", "DescribeCluster", {"IncludeClusterAuthorizedOperations": True}),
        ("none", "DescribeAcls", wanted),
        ("none", "DeleteAcls", {"Filters": [wanted, wanted]}),
        ("bad", "CreateAcls", {"Creations": [_acl(TOPIC, "", 3, "10.9.8.7")] * 2}),
        ("no code", "CreateAcls", {"Creations": [_acl(0, "a", 3, "10.9.8.7")]}),
        ("none", "DescribeUserScramCredentials", {"Users": [{"Name": "nobody"}, {"Name": "other"}]}),
        ("none", "AlterUserScramCredentials", {"Deletions": [{"Name": "z", "Mechanism": 1}, {"Name": "a",
                                               "Mechanism": 1}], "Upsertions": []}),
        ("twice", "AlterUserScramCredentials", {"Deletions": [{"Name": "a", "Mechanism": 1}] * 2, "Upsertions": []}),
        ("topics", "AlterReplicaLogDirs", {"Dirs": [{"Path": "/nowhere", "Topics": [
            {"Name": each, "Partitions": [0]} for each in both]}]}),
        ("quorum", "DescribeQuorum", {"Topics": [{"TopicName": each, "Partitions": [{"PartitionIndex": 0}]}
            for each in both]}),
        ("topics", "DescribeLogDirs", {"Topics": [{"Topic": both[0], "Partitions": [77]}]}),
        ("features", "UpdateFeatures", {"timeoutMs": 1000, "ValidateOnly": True, "FeatureUpdates": []}),
        ("topics", "ListConfigResources", {"ResourceTypes": [16]}),
    ]  # fmt: skip
