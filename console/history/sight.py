"""What of the history a page may show: all, or with `--cluster-login` what the ACLs let the user describe.

The console samples with a user of its own, who may see more. So a topic or a group counts that the user's own client
lists, sizes and sums of the whole cluster need DESCRIBE on the cluster, as DescribeLogDirs does, and the lag of a group
is that in topics which the user sees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...client import KafkaError
from ..cluster import Cluster
from .history import LAG, LAG_S, RATE, SIZE, History, StateSeen
from .sampler import GroupSample, Sample


class Sight:
    """The history as one user sees it, whose clients `cluster` has. With `sees_all` nothing is hidden."""

    def __init__(self, history: History, cluster: Cluster, sees_all: bool) -> None:
        self._history = history
        self._cluster = cluster
        self._sees_all = sees_all

    @property
    def error(self) -> str:
        """Why there is no newer sample, "" if there is."""
        if self._sees_all or not self._history.error:
            return self._history.error
        return "the console could not take one: its log says why"

    async def sample(self, topics: Collection[str] | None = None) -> Sample:
        """Return the newest sample. `topics` are those that the user sees, where they are known. Raises KafkaError."""
        sample = self._history.latest
        if self._sees_all:
            return sample
        admin = await self._cluster.admin()
        seen = (await admin.describe_topics()).keys() if topics is None else topics
        groups = {each.group_id for each in await admin.list_groups()}
        of_cluster = await self._sees_cluster()
        readers = {
            topic: {group: lag for group, lag in found.items() if group in groups}
            for topic, found in sample.readers.items()
            if topic in seen
        }
        hidden = {group for topic, found in sample.readers.items() if topic not in seen for group in found}
        return Sample(
            sample.at_ms,
            {topic: end for topic, end in sample.topic_ends.items() if topic in seen},
            {topic: size for topic, size in sample.sizes.items() if topic in seen and of_cluster},
            {
                group: _without_hidden(each, [found[group] for found in readers.values() if group in found])
                if group in hidden
                else each
                for group, each in sample.groups.items()
                if group in groups
            },
            readers,
            sample.problems if of_cluster else [],
        )

    async def _sees_cluster(self) -> bool:
        try:
            return bool(await (await self._cluster.admin()).describe_log_dirs(partitions=[]))
        except KafkaError:
            return False

    async def series(self, kinds: Sequence[str], of: str) -> tuple[list[float], list[list[float | None]]]:
        """Return the times of all series, and the numbers of those of a topic, a group, or "" for the whole cluster.

        None stands for each number that the user does not see. Raises KafkaError.
        """
        seen = [self._sees_all or await self._sees(each, of) for each in kinds]
        found = self._history.series
        nothing: list[float | None] = [None] * len(found.times_ms)
        rows = [found.values((kind, of)) if sees else nothing for kind, sees in zip(kinds, seen, strict=True)]
        return list(found.times_ms), rows

    async def _sees(self, kind: str, of: str) -> bool:
        sample = await self.sample()
        if kind in (LAG, LAG_S):
            group = sample.groups.get(of)
            # What is of hidden topics, too, differs.
            return group is not None and group == self._history.latest.groups.get(of)
        if of == "":
            return await self._sees_cluster()
        return of in {RATE: sample.topic_ends, SIZE: sample.sizes}[kind]

    def rate(self, topic: str) -> float | None:
        """Return the records a second of a topic that the user sees, None where that is not known."""
        return self._history.series.last((RATE, topic))

    def states(self, group: str) -> list[StateSeen]:
        """Return the states in which a group that the user sees was seen, the newest first."""
        return self._history.states(group)


def _without_hidden(group: GroupSample, lags: list[int]) -> GroupSample:
    """Return a group with its lag in these topics alone. The oldest unread record may lie in another one."""
    return replace(group, lag=sum(lags) if lags else None, lag_s=None)
