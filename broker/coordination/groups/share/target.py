"""The target of a share group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..group import Group
from ..modern.state import Targets
from ..modern.target import TargetOf, Told, told
from . import changes
from .assignor import Sharer, assign_simple
from .draft import Draft
from .state import ShareGroup


def _size(draft: Draft) -> int:
    return len(_told(draft)) + sum(len(each.partitions) for each in draft.body.initialized.values())


def _told(draft: Draft) -> dict[str, Told]:
    return {**told(draft.body), draft.event.member_id: (draft.said, draft.member.target)}


def _assignment(group: Group, body: ShareGroup, members: Mapping[str, Told]) -> Callable[[], Targets]:
    ids: dict[str, bytes] = {}
    ready: dict[bytes, frozenset[int]] = {}
    sharers: list[Sharer] = []
    for member_id, (said, target) in members.items():
        if said is None:
            continue
        names = set(said.subscribed_topic_names)
        for name in names - ids.keys():
            topic = group.topics.get(name)
            states = None if topic is None else body.initialized.get(topic.id)
            if topic is not None and states is not None:
                ids[name] = topic.id
                ready[topic.id] = states.partitions
        own = frozenset(ids[name] for name in names if name in ids)
        sharers.append(Sharer(member_id, own, target))
    return lambda: assign_simple(sharers, ready)


SHARE_TARGET: TargetOf[ShareGroup] = TargetOf(
    body=lambda group: group.share,
    changes=changes,
    interval_ms=lambda limits: limits.share.assignment_interval_ms,
    size=_size,
    told=_told,
    assignment=_assignment,
)
