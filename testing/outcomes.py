"""What is there instead of what a test has waited for."""

from __future__ import annotations

from collections import Counter

from ..broker.configs.definition import suggestion
from ..client import ConsumerRecord

# By (topic, partition).
Offsets = dict[tuple[str, int], int]
_SHOWN_RECORDS = 20


def too_far(groups: list[str], group: str, wanted: int, within: float, lag: Offsets) -> str:
    """Return what there is instead of the lag that a test waited for."""
    if group not in groups:
        return f"after {within:g} s there is no group {group!r}{suggestion(group, groups)}; there are {sorted(groups)}"
    if not lag:
        return f"after {within:g} s group {group!r} has committed nothing"
    return f"after {within:g} s group {group!r} has a lag of {sum(lag.values())}, not {wanted}, by partition {lag}"


def too_few(
    topics: list[str], topic: str, wanted: int, within: float, found: list[ConsumerRecord[bytes, bytes]]
) -> str:
    """Return what there is instead of the records that a test waited for."""
    if topic not in topics:
        near = suggestion(topic, topics)
        return f"after {within:g} s there is no topic {topic!r}{near}; there are {sorted(topics)}"
    counts = dict(sorted(Counter(each.partition for each in found).items()))
    shown = "".join(
        f"\n  {each.partition}@{each.offset} {each.key!r}: {each.value!r}" for each in found[-_SHOWN_RECORDS:]
    )
    return f"after {within:g} s topic {topic!r} has {len(found)} of {wanted} records, by partition {counts}{shown}"
