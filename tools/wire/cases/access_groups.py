"""The part of the matrix of ACLs (access.py) about consumer groups, share groups, quotas and delegation tokens.

Its groups have members, which must be heard of before each stage: what a client sees of a group depends on their
topics.
"""

from __future__ import annotations

import base64
import uuid
from typing import Any

from ..connection import Wire, until_deadline

Bodies = list[tuple[str, str, dict[str, Any]]]
# The versions of the members' own heartbeats.
_VERSIONS = {"ConsumerGroupHeartbeat": 1, "ShareGroupHeartbeat": 1}
NOBODY = "AAAAAAAAAAAAAAAAAAAAAA"


class Members:
    """Members of groups: one of each kind for the topics of mine, the other's, and both."""

    def __init__(self, wire: Wire, topics: list[str]) -> None:
        self._wire = wire
        mine, other = topics
        # By group: the API of its member, the member's id, its topics and its epoch.
        self._of: dict[str, tuple[str, str, list[str], int]] = {}
        for api in _VERSIONS:
            kind = api.removesuffix("GroupHeartbeat").lower()
            for name, subscribed in ((mine, [mine]), (f"{mine}-both", [mine, other]), (other, [other])):
                group = f"{name}-{kind}"
                # A member of a share group may use topics that it asks for alone.
                self._of[group] = api, str(uuid.uuid4()), subscribed, 0
        self.groups = list(self._of)
        # The groups whose members have had partitions.
        self._assigned: set[str] = set()

    def heartbeat(self) -> None:
        """Let every member be heard of. The first time it joins."""
        for group, (api, member, topics, epoch) in self._of.items():
            body = {"GroupId": group, "MemberId": member, "MemberEpoch": epoch}
            if not epoch:
                body |= {"SubscribedTopicNames": topics, "RebalanceTimeoutMs": 300_000, "TopicPartitions": []}
                if api == "ShareGroupHeartbeat":
                    del body["RebalanceTimeoutMs"], body["TopicPartitions"]
            answer = self._wire.until(lambda told: not told["ErrorCode"], api, _VERSIONS[api], body)
            self._of[group] = api, member, topics, answer["MemberEpoch"]
            if answer["Assignment"] is not None and answer["Assignment"]["TopicPartitions"]:
                self._assigned.add(group)

    def await_assignments(self) -> None:
        """Wait until every member has its partitions. A share group's come with a later heartbeat than its first."""
        for _ in until_deadline():
            self.heartbeat()
            if len(self._assigned) == len(self.groups):
                break


def await_share_coordinator(wire: Wire, ids: dict[str, str]) -> None:
    """Wait until the share coordinator keeps states, and the groups that are fetched from know their partitions."""
    topic_id = base64.urlsafe_b64encode(uuid.UUID(ids["mine"]).bytes).decode().rstrip("=")
    keys = {"KeyType": 2, "CoordinatorKeys": [f"g:{topic_id}:0"]}
    wire.until(lambda told: not told["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, keys)
    topics = [{"TopicId": each, "Partitions": [{"PartitionIndex": 0}]} for each in ids.values()]
    for name in ids:
        member = {"GroupId": f"{wire.prefix}-{name}-share", "MemberId": NOBODY, "MaxWaitMs": 0, "MaxBytes": 1000}
        first = {**member, "ShareSessionEpoch": 0, "MaxRecords": 1, "Topics": topics}
        wire.until(lambda told: _partitions_in(told) == [1] * len(topics), "ShareFetch", 1, first)
    wire.quiet.close()  # and with it the sessions of these members


def _partitions_in(told: dict[str, Any]) -> list[int]:
    return [len(each["Partitions"]) for each in told["Responses"]]


def bodies(both: list[str], ids: dict[str, Any], groups: list[str]) -> Bodies:
    """Return the requests of this part. `ids` has the topics' ids by name."""
    return [
        *_of_members(both, groups),
        *_of_share_members(both, ids),
        *_of_states(both, ids),
        *_of_offsets(both, groups),
        *_of_others(both),
    ]


def _of_members(both: list[str], groups: list[str]) -> Bodies:
    found: Bodies = [
        ("members", "ConsumerGroupDescribe", {"GroupIds": groups, "IncludeAuthorizedOperations": True}),
        ("members", "ShareGroupDescribe", {"GroupIds": groups, "IncludeAuthorizedOperations": True}),
    ]
    for group in both:
        for topics in ([both[0]], both, [f"{both[0]}-gone"]):
            # Nobody has this epoch.
            member = {"GroupId": f"{group}-none", "MemberId": NOBODY, "MemberEpoch": 77, "SubscribedTopicNames": topics}
            case = f"{'mine' if group == both[0] else 'other'}, {len(topics)} of {topics[0][-4:]}"
            found += [(case, "ConsumerGroupHeartbeat", member), (case, "ShareGroupHeartbeat", member)]
    return found


def _of_share_members(both: list[str], ids: dict[str, Any]) -> Bodies:
    found: Bodies = []
    batches = [{"FirstOffset": 0, "LastOffset": 0, "AcknowledgeTypes": [1]}]
    for group, which in zip(both, ("mine", "other"), strict=True):
        member = {"GroupId": f"{group}-share", "MemberId": NOBODY}
        fetched = [{**ids[each], "Partitions": [{"PartitionIndex": 0}]} for each in both]
        answered = [
            {**ids[each], "Partitions": [{"PartitionIndex": 0, "AcknowledgementBatches": batches}]} for each in both
        ]
        size = {"MaxWaitMs": 300, "MinBytes": 0, "MaxBytes": 1000, "MaxRecords": 1, "BatchSize": 1}
        found += [
            (f"{which}, first", "ShareFetch", {**member, **size, "ShareSessionEpoch": 0, "Topics": fetched}),
            (f"{which}, later", "ShareAcknowledge", {**member, "ShareSessionEpoch": 1, "Topics": answered}),
            (f"{which}, later", "ShareFetch", {**member, **size, "ShareSessionEpoch": 2, "Topics": answered}),
            (f"{which}, last", "ShareAcknowledge", {**member, "ShareSessionEpoch": -1, "Topics": answered}),
        ]
    return found


def _of_states(both: list[str], ids: dict[str, Any]) -> Bodies:
    def states(**partition: Any) -> dict[str, Any]:
        topics = [{**ids[each], "Partitions": [{"Partition": 0, **partition}]} for each in both]
        return {"GroupId": f"{both[0]}-states", "Topics": topics}

    return [
        ("states", "InitializeShareGroupState", states(StateEpoch=1, StartOffset=0)),
        ("states", "WriteShareGroupState", states(StateEpoch=1, LeaderEpoch=0, StartOffset=0, StateBatches=[])),
        ("states", "ReadShareGroupState", states(LeaderEpoch=0)),
        ("states", "ReadShareGroupStateSummary", states(LeaderEpoch=0)),
        ("states", "DeleteShareGroupState", states()),
    ]


def _of_offsets(both: list[str], groups: list[str]) -> Bodies:
    named = [{"TopicName": each, "Partitions": [0]} for each in both]
    starts = [{"TopicName": each, "Partitions": [{"PartitionIndex": 0, "StartOffset": 0}]} for each in both]
    found: Bodies = [
        ("named", "DescribeShareGroupOffsets", {"Groups": [{"GroupId": each, "Topics": named} for each in groups]}),
        ("all", "DescribeShareGroupOffsets", {"Groups": [{"GroupId": each, "Topics": None} for each in groups]}),
    ]
    for group, which in zip(both, ("mine", "other"), strict=True):
        for name in (f"{group}-share", f"{group}-new"):
            case = f"{which}, {name[-5:]}"
            found += [
                (case, "AlterShareGroupOffsets", {"GroupId": name, "Topics": starts}),
                (case, "DeleteShareGroupOffsets", {"GroupId": name, "Topics": [{"TopicName": each} for each in both]}),
            ]
    return found


def _of_others(both: list[str]) -> Bodies:
    entity = [{"EntityType": "user", "EntityName": both[0]}]
    quota = {"Entity": entity, "Ops": [{"Key": "producer_byte_rate", "Value": 1.0, "Remove": False}]}
    owner = {"OwnerPrincipalType": "User", "OwnerPrincipalName": both[1]}
    return [
        ("all", "DescribeClientQuotas", {"Components": [{"EntityType": "user", "MatchType": 0, "Match": both[0]}]}),
        ("two", "AlterClientQuotas", {"Entries": [quota, {**quota, "Entity": [
            {"EntityType": "user", "EntityName": both[1]}]}], "ValidateOnly": True}),
        ("of another", "CreateDelegationToken", {**owner, "Renewers": [], "MaxLifetimeMs": -1}),
        ("own", "CreateDelegationToken", {"OwnerPrincipalType": None, "OwnerPrincipalName": None, "Renewers": [],
                                          "MaxLifetimeMs": -1}),
        ("none", "RenewDelegationToken", {"Hmac": b"h", "RenewPeriodMs": -1}),
        ("none", "ExpireDelegationToken", {"Hmac": b"h", "ExpiryTimePeriodMs": -1}),
        ("all", "DescribeDelegationToken", {"Owners": None}),
    ]  # fmt: skip
