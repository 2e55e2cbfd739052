"""What `Consumer.explain` returns: what the consumer has, how far behind it is, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

from ..record import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """One assigned partition. `waits_for` says why no records come, "" if they do or there are none."""

    partition: TopicPartition
    position: int | None
    committed: int | None
    high_watermark: int | None
    # Records behind the high watermark of the last fetch; None before it.
    lag: int | None
    # The age of the last returned record while there are more, 0 at the end; None if no record was returned.
    lag_seconds: float | None
    waits_for: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A consumer at one moment. Its text is for people."""

    group_id: str | None
    member_id: str
    generation: int
    # UNJOINED, JOINING, STABLE or ENDED; "" without a group.
    state: str
    # Who or what the group's rebalance waits for, "" if there is none.
    rebalance: str
    partitions: tuple[PartitionExplanation, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        if self.group_id is not None:
            member = f"member {self.member_id or '(none yet)'}, generation {self.generation}"
            lines.append(f"group {self.group_id}: {self.state.lower()}, {member}")
        if self.rebalance:
            lines.append(f"rebalance: {self.rebalance}")
        for each in self.partitions:
            name = f"{each.partition.topic}-{each.partition.partition}"
            behind = "" if each.lag_seconds is None else f" ({each.lag_seconds:.1f} s)"
            lag = "lag unknown" if each.lag is None else f"lag {each.lag}{behind}"
            waits = f", waits for {each.waits_for}" if each.waits_for else ""
            lines.append(f"{name}: position {each.position}, committed {each.committed}, {lag}{waits}")
        return "\n".join(lines) or "no partitions are assigned"
