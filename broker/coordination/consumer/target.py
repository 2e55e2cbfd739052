"""The target of a consumer group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ..groups.group import Group
from ..modern import draft
from ..modern.state import Subscriber, Targets
from ..modern.target import NAMES_EACH, TargetOf, Told, subscriptions, told, unwritten
from . import changes
from .assignors import ASSIGNORS
from .events import ConsumerHeartbeat
from .state import ConsumerGroup, Member, topics_of

# A heartbeat of a consumer group under way.
Draft = draft.Draft[ConsumerGroup, ConsumerHeartbeat, Member, ConsumerGroupMemberMetadataValue]


def _size(draft: Draft) -> int:
    topics = (
        draft.group.topics.get(name) for name in draft.body.subscribed_topics() | draft.body.topics_of(draft.said)
    )
    members = draft.body.members
    size = len(members) + subscriptions(told(draft.body).values()) // NAMES_EACH
    return size + sum(topic.partition_count for topic in topics if topic is not None)


def _told(draft: Draft) -> dict[str, Told]:
    """Return what every member says. A static member may come back under another id."""
    found = told(draft.body)
    # None, or the member itself, or the one whose place it has.
    found.pop(draft.body.static.get(draft.event.instance_id or "", ""), None)
    found[draft.event.member_id] = (draft.said, draft.member.target)
    return found


def _assignment(group: Group, body: ConsumerGroup, members: Mapping[str, Told]) -> Callable[[], Targets]:
    names = body.subscribed_topics().union(*map(body.topics_of, unwritten(body, members)))
    topics = {name: (topic.id, topic.partition_count) for name in names if (topic := group.topics.get(name))}
    votes = Counter(said.server_assignor for said, _ in members.values() if said is not None and said.server_assignor)
    assignor = ASSIGNORS[_elected(votes, group.limits.consumer.assignors)]
    regexes = dict(body.regexes)

    def work() -> Targets:
        counts: dict[bytes, int] = {}
        subscribers: list[Subscriber] = []
        for member_id, (said, target) in members.items():
            if said is not None:
                own = dict(topics[name] for name in topics_of(said, regexes) & topics.keys())
                counts.update(own)
                subscribers.append(Subscriber(member_id, said.instance_id, frozenset(own), target))
        return assignor(subscribers, counts)

    return work


def assignor_of(group: Group) -> str:
    """Return the assignor that most members ask for."""
    return _elected(_votes(group.consumer) if group.consumer else Counter(), group.limits.consumer.assignors)


def elects_another(draft: Draft) -> bool:
    """Return whether the group elects another assignor once the member's new vote counts."""
    before, after = draft.member.said, draft.said.server_assignor
    if (before and before.server_assignor) == after:
        return False
    votes, assignors = _votes(draft.body), draft.group.limits.consumer.assignors
    elected = _elected(votes, assignors)
    votes.subtract([before.server_assignor or ""] if before else [])
    votes.update([after or ""])
    return _elected(votes, assignors) != elected


def _votes(body: ConsumerGroup) -> Counter[str]:
    said = (member.said for member in body.members.values())
    return Counter(each.server_assignor for each in said if each is not None and each.server_assignor)


def _elected(votes: Counter[str], assignors: tuple[str, ...]) -> str:
    """Return the allowed assignor with the most votes. Of two with as many votes, the first."""
    return max(assignors, key=lambda name: votes[name])


CONSUMER_TARGET: TargetOf[ConsumerGroup] = TargetOf(
    body=lambda group: group.consumer,
    changes=changes,
    interval_ms=lambda limits: limits.consumer.assignment_interval_ms,
    size=_size,
    told=_told,
    assignment=_assignment,
)
