"""The target of a share group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....protocol.messages.share_group_records import ShareGroupMemberMetadataValue
from ..groups.group import Group
from ..modern import draft
from ..modern.state import Subscriber, Targets
from ..modern.target import NAMES_EACH, TargetOf, Told, subscriptions, told
from . import changes
from .assignor import assign_simple
from .events import ShareHeartbeat
from .state import Member, ShareGroup

# A heartbeat of a share group under way.
Draft = draft.Draft[ShareGroup, ShareHeartbeat, Member, ShareGroupMemberMetadataValue]


def _size(draft: Draft) -> int:
    members = _told(draft)
    size = len(members) + subscriptions(members.values()) // NAMES_EACH
    return size + sum(len(each.partitions) for each in draft.body.initialized.values())


def _told(draft: Draft) -> dict[str, Told]:
    return {**told(draft.body), draft.event.member_id: (draft.said, draft.member.target)}


def _assignment(group: Group, body: ShareGroup, members: Mapping[str, Told]) -> Callable[[], Targets]:
    ids: dict[str, bytes] = {}
    initialized: dict[bytes, frozenset[int]] = {}
    for topic_id, states in body.initialized.items():
        topic = group.topics.by_id(topic_id)
        if topic is not None:
            ids[topic.name], initialized[topic_id] = topic_id, states.partitions

    def work() -> Targets:
        sharers: list[Subscriber] = []
        ready: dict[bytes, frozenset[int]] = {}
        for member_id, (said, target) in members.items():
            if said is not None:
                own = frozenset(ids[name] for name in ids.keys() & said.subscribed_topic_names)
                ready.update((topic_id, initialized[topic_id]) for topic_id in own)
                sharers.append(Subscriber(member_id, None, own, target))
        return assign_simple(sharers, ready)

    return work


SHARE_TARGET: TargetOf[ShareGroup] = TargetOf(
    body=lambda group: group.share,
    changes=changes,
    interval_ms=lambda limits: limits.share.assignment_interval_ms,
    size=_size,
    told=_told,
    assignment=_assignment,
)
