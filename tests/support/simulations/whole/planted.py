"""Planted faults: known mistakes taken back into today's code, which the simulation must find.

Each is a change of a function's text. Where the text is there no more, the plant says so: it must be planted anew.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from odradek.broker.cluster.controller import election
from odradek.broker.cluster.member import Member
from odradek.broker.coordination.classic import guards
from odradek.broker.coordination.consumer import departure, heartbeat, offsets, regexes
from odradek.broker.coordination.coordinator_log import CoordinatorLog
from odradek.broker.coordination.share_groups import heartbeat as share_heartbeat
from odradek.broker.coordination.share_states import machine as share_machine
from odradek.broker.coordination.transactions import lost, markers, query, query_records
from odradek.broker.log_dirs import data_dir
from odradek.broker.replication.follower_log import FollowerLog
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.replica import Replica
from odradek.broker.share_partitions.machine import _Acquisition  # pyright: ignore[reportPrivateUsage]
from odradek.broker.topics.partition import Partition
from odradek.broker.topics.partition_state import PartitionState
from odradek.storage.compaction.compaction import Compaction
from odradek.storage.files import Disk
from odradek.storage.journal import Journal
from odradek.storage.log import Log
from odradek.storage.producers import ProducerStates
from odradek.storage.recovery import Recovery

from .run import Result, run


@dataclass(frozen=True)
class Change:
    """A text in a function of a class or module, and what stands there instead."""

    owner: Any
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Plant:
    """A known mistake, and the number of brokers that it needs."""

    what: str
    nodes: int
    changes: tuple[Change, ...]


PLANTS = (
    Plant(
        "the clocks of two brokers decide whether a found commit is an abort",
        3,
        (
            Change(markers.MarkerWriter, "_end", "end.is_found and partition.replication is None", "end.is_found"),
            Change(markers, "_end_of_lost", "last_marker_ms == end", "last_marker_ms >= end"),
        ),
    ),
    Plant(
        "a marker for a partition that another broker leads is lost",
        3,
        (Change(markers.MarkerWriter, "write", "return self._write_remotely(topic_name, index, end)", "return None"),),
    ),
    Plant(
        "a follower that lost records or its directory stays in the ISR",
        3,
        (
            Change(Member, "leave_isrs", "in replicas.with_losses()", "in ()"),
            Change(Member, "_take_number", "if is_start:", "if False:"),
        ),
    ),
    Plant(
        "a copy of a directory of some time ago passes for the directory",
        3,
        (Change(data_dir, "_is_copy", "disk.exists(meta)", "False"),),
    ),
    Plant(
        "the high watermark does not wait for the followers",
        3,
        (Change(Leadership, "_advance", "min(ends)", "max(ends)"),),
    ),
    Plant(
        "a batch is acknowledged before it is forced to disk",
        1,
        (Change(Partition, "_write", "must_flush = flush_delay_ms == 0", "must_flush = False"),),
    ),
    Plant(
        "read_committed readers see open transactions",
        1,
        (Change(PartitionState, "end_for", "return self.last_stable_offset", "return self.high_watermark"),),
    ),
    Plant(
        "a batch that a producer sends again is appended again",
        1,
        (Change(ProducerStates, "check", "return duplicate\n", "return None\n"),),
    ),
    Plant(
        "the leader's own append moves the high watermark",
        3,
        (Change(Leadership, "appended", "if self._is_alone:", "if True:"),),
    ),
    Plant(
        "a follower joins the ISR below the start of the leader's epoch",
        3,
        (Change(Leadership, "_grown", "max(self.high_watermark, self.epoch_start)", "self.high_watermark"),),
    ),
    Plant(
        "a broker that is not in the ISR is elected",
        3,
        (Change(election, "elect_in_sync", "(place, state.isr)", "(place, cluster.replicas[place].replicas)"),),
    ),
    Plant(
        "a follower keeps what the leader does not have",
        3,
        (Change(FollowerLog, "go_back", "await self._truncate(partition, offset, is_current)", "return"),),
    ),
    Plant(
        "a new leader says where a partition ends before it knows",
        3,
        (Change(Replica, "check_end_known", "if self.leadership is not None and", "if False and"),),
    ),
    Plant(
        "a batch that a producer sends again is acknowledged before the first copy is forced to disk",
        1,
        (Change(Partition, "_append_produced", "log_start_offset, self.must_flush)", "log_start_offset, False)"),),
    ),
    Plant(
        "a classic group takes commits of an earlier generation",
        1,
        (Change(guards, "_current_member", "event.generation != group.generation", "False"),),
    ),
    Plant(
        "a consumer group takes commits of an earlier epoch",
        1,
        (Change(offsets, "commit_error", "event.generation == member.current.epoch or", "True or"),),
    ),
    Plant(
        "a static member that has gone keeps its partitions",
        1,
        (Change(departure, "late", "member is None:", "member is None or (member.said and member.said.instance_id):"),),
    ),
    Plant(
        "a member goes on with an earlier epoch and what it has given up",
        1,
        (Change(heartbeat, "_check_epoch", "or answer_was_lost:", "or True:"),),
    ),
    Plant(
        "a regular expression is forgotten with the last but one member that has it",
        1,
        (Change(regexes, "unused_without", "left[regex] <= 0", "left[regex] <= 1"),),
    ),
    Plant(
        "an aborted transaction is not in the index",
        1,
        (Change(Log, "_append_marker", "if marker.type is ControlType.ABORT else None", "if False else None"),),
    ),
    Plant(
        "a journal takes no more after a full disk",
        1,
        (
            Change(
                Journal,
                "append",
                "self._fatal(lambda: self._disk.truncate(tail, self._size))",
                "self._failure = LogClosed(self.directory, 'full')",
            ),
        ),
    ),
    Plant(
        "an index that a power cut has halved is taken as it is",
        1,
        (
            Change(Recovery, "_check_segment", "segment.aborted.clear()", "pass"),
            Change(Recovery, "_take", "segment.aborted.append(aborted)", "pass"),
        ),
    ),
    Plant(
        "a group has members of two kinds",
        1,
        (Change(share_heartbeat, "_body", "not group.is_new()", "False"),),
    ),
    Plant(
        "a share group's state is written by a leader that leads no more",
        3,
        (Change(share_machine, "_check_leader", "leader_epoch < current.leader_epoch", "False"),),
    ),
    Plant(
        "a share group's state counts before the followers have it, and its coordinator is killed",
        3,
        (
            Change(
                CoordinatorLog,
                "append",
                "elif not target.must_flush",
                "elif self._name == '__share_group_state' or not target.must_flush",
            ),
        ),
    ),
    Plant(
        "the lock of a share group ends long before its time",
        1,
        (Change(_Acquisition, "__init__", "now_ms + limits.lock_ms", "now_ms + limits.lock_ms // 3"),),
    ),
    Plant(
        "the names of new segments are not forced to disk",
        1,
        (Change(Log, "_sync", "self._disk.fsync_dir(self.directory)", "pass"),),
    ),
    Plant(
        "a transaction stays open that a lone coordinator has lost",
        1,
        (Change(lost, "abort_lost", "producer.epoch <= known.get((producer_id, place), -1)", "True"),),
    ),
    Plant(
        "a query's earlier run goes on writing beside the next one",
        1,
        (
            Change(
                query,
                "join",
                "if standing is None:",
                "run_id = standing.run_id if standing else run_id\n    if standing is None:",
            ),
            Change(query, "end", " or run_id != standing.run_id", ""),
        ),
    ),
    Plant(
        "a query's batch that was committed is committed again",
        1,
        (
            Change(query, "join", "batch_id == standing.batch_id", "False"),
            Change(query, "end", "batch_id <= standing.batch_id", "False"),
        ),
    ),
    Plant(
        "a restart forgets which batch of a query was committed last",
        1,
        (Change(query_records, "encode", "standing.batch_id", "-1"),),
    ),
    Plant(
        "a cleaning removes a tombstone and leaves an older value",
        1,
        (
            Change(
                Compaction,
                "run",
                "if source.base_offset < self.end_offset]",
                "if self._job.first_dirty_offset < source.end_offset <= self.end_offset]",
            ),
            Change(Compaction, "_is_past_horizon", "header.has_delete_horizon and", "True or"),
        ),
    ),
    Plant(
        "a cleaned segment counts before it is forced to disk",
        1,
        (Change(Compaction, "_clean", "target.sync()", "pass"),),
    ),
    Plant(
        "a checkpoint is written in its place",
        1,
        (Change(Disk, "write_atomically", "self.rename(temporary, path)", "path.write_bytes(bytes(data)[:9])"),),
    ),
)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Have the mistake in the code meanwhile."""
    with ExitStack() as undoing:
        for change in plant.changes:
            before = getattr(change.owner, change.name)
            before = before.fget if isinstance(before, property) else before
            text = textwrap.dedent(inspect.getsource(before))
            assert change.old in text, f"{change.name} has changed: plant {plant.what!r} anew"
            text = "from __future__ import annotations\n" + text.replace(change.old, change.new)
            names: dict[str, Any] = {}
            exec(compile(text, inspect.getfile(before), "exec"), before.__globals__, names)
            found = names[change.name]
            # Tables of functions have it, too.
            code, before.__code__ = before.__code__, (found.fget if isinstance(found, property) else found).__code__
            undoing.callback(setattr, before, "__code__", code)
        yield


def find(plant: Plant, most_seeds: int) -> tuple[int, Result] | None:
    """Return how many seeds it takes to find a mistake, and the failure; None: not found.

    A seed that fails without the mistake, too, has not found it.
    """
    for seed in range(most_seeds):
        with planted(plant):
            result = run(seed, plant.nodes)
        if result.violations and not run(seed, plant.nodes).violations:
            return seed + 1, result
    return None
