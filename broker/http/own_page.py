"""`/metrics`: the broker under names of its own, a few thousand samples at most, whatever it holds."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ... import __version__
from ...storage.system_calls import resident_bytes
from ..coordination.transactions.states import TransactionState
from ..metrics.request_counts import RequestCounts
from ..metrics.table import Labels, family, histogram, single
from ..services import Services
from ..turns import keeper
from .group_lag import MAX_LABEL_CHARS, GroupLag, lags
from .scrape import ScrapedBroker
from .topic_sums import BrokerSums, sum_topics

# The APIs whose time is shown each for itself, because clients wait for them; the others are one row.
TIMED = frozenset(
    {
        *("Produce", "Fetch", "Metadata", "ListOffsets", "OffsetCommit", "OffsetFetch", "FindCoordinator"),
        *("JoinGroup", "SyncGroup", "Heartbeat", "EndTxn"),
    }
)
_OTHER_APIS = "Other"


async def own_page(scraped: ScrapedBroker) -> Iterator[str]:
    """Return the pieces of the page, after look-ups in files."""
    rows: list[GroupLag] = []
    await keeper().finish(lags(scraped.services, rows))
    await scraped.ages.refresh(each for row in rows for each in row.unread)
    services, questions = scraped.services, scraped.questions
    paths = [each.path for each in services.log_dirs.all]
    sizes = await asyncio.gather(
        *(questions.ask(services.threads, each, "space", partial(services.disk.space, each)) for each in paths)
    )
    open_files = await questions.ask(services.threads, services.config.data_dir, "descriptors", _count_open_files)
    space = {path: found for path, found in zip(paths, sizes, strict=True) if found is not None}
    return _page(scraped, rows, space, open_files)


def _page(
    scraped: ScrapedBroker, rows: list[GroupLag], space: dict[Path, tuple[int, int]], open_files: int | None
) -> Iterator[str]:
    services = scraped.services
    yield from _process(scraped, open_files)
    yield from _requests(scraped)
    yield from _topics(services)
    yield from _groups(scraped, rows)
    yield from _share_groups(services)
    yield from _transactions(services)
    yield from _disks(services, space)


def _process(scraped: ScrapedBroker, open_files: int | None) -> Iterator[str]:
    services = scraped.services
    yield from single("odradek_build_info", 1, __version__, platform.python_version())
    yield from single("odradek_cluster_info", 1, services.metadata.cluster_id, str(services.config.node_id))
    is_ready = not any(unready_reasons(services, scraped.acceptor.listening))
    yield from single("odradek_ready", int(is_ready))
    clock = time.pthread_getcpuclockid(threading.get_ident())
    yield from single("odradek_event_loop_cpu_seconds_total", time.clock_gettime(clock))
    yield from single("process_cpu_seconds_total", time.process_time())
    yield from single("process_resident_memory_bytes", resident_bytes())
    if open_files is not None:
        yield from single("process_open_fds", open_files)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield from single("process_max_fds", float("inf") if most == resource.RLIM_INFINITY else most)


def _count_open_files() -> int:
    """Return how many descriptors are open. With tens of thousands that takes milliseconds: call it in a thread."""
    return len(os.listdir("/dev/fd"))  # on Linux and macOS alike


def _requests(scraped: ScrapedBroker) -> Iterator[str]:
    counts = sorted(scraped.services.requests.values(), key=lambda each: each.name)
    yield from single("odradek_connections", sum(len(each.connections) for each in scraped.acceptor.processors))
    yield from family("odradek_requests_total", (((each.name,), each.requests) for each in counts))
    errors = [((each.name, code.name), count) for each in counts for code, count in each.errors.items()]
    yield from family("odradek_request_errors_total", errors)
    yield from histogram("odradek_request_duration_seconds", _durations(counts), RequestCounts.bounds_s())
    yield from single("odradek_purgatory_waiting", len(scraped.services.purgatory))


def _durations(counts: list[RequestCounts]) -> Iterator[tuple[tuple[str], list[int], float]]:
    others = [each for each in counts if each.name not in TIMED]
    for each in counts:
        if each.name in TIMED:
            yield (each.name,), each.buckets, each.timed_ns / 1e9
    if others:
        buckets = [sum(column) for column in zip(*(each.buckets for each in others), strict=True)]
        yield (_OTHER_APIS,), buckets, sum(each.timed_ns for each in others) / 1e9


def _topics(services: Services) -> Iterator[str]:
    sums = BrokerSums()
    yield from sum_topics(services, sums)
    yield from single("odradek_topics", len(services.topics))
    yield from single("odradek_topics_summed", sums.summed)
    for name, attribute in (
        ("odradek_topic_bytes_in_total", "bytes_in"),
        ("odradek_topic_records_in_total", "records_in"),
        ("odradek_topic_bytes_out_total", "bytes_out"),
        ("odradek_log_bytes", "log_bytes"),
    ):
        yield from family(name, (((row.name,), getattr(row, attribute)) for row in sums.topics))
    yield from single("odradek_partitions", sums.held)
    yield from single("odradek_leaders", sums.led)
    yield from single("odradek_partitions_offline", sums.offline)
    yield from single("odradek_partitions_under_replicated", sums.under_replicated)
    yield from single("odradek_partitions_under_min_isr", sums.under_min_isr)
    yield from single("odradek_damaged_places", sums.damaged_places)
    yield from single("odradek_active_controller", int(is_controller(services)))


def is_controller(services: Services) -> bool:
    """Return whether this broker is the controller. A broker that is alone is its own."""
    return services.cluster is None or services.cluster.controller.is_active


def _groups(scraped: ScrapedBroker, rows: list[GroupLag]) -> Iterator[str]:
    count, now_ms, ages = len(scraped.services.groups.groups), scraped.services.clock.now_ms(), scraped.ages
    yield from single("odradek_groups", count)
    yield from single("odradek_groups_summed", max(count - scraped.services.config.metrics_max_groups, 0))
    yield from family("odradek_group_members", (((row.group,), row.members) for row in rows))
    yield from family("odradek_group_generation", (((row.group,), row.generation) for row in rows))
    yield from family("odradek_group_lag_records", (((row.group,), row.lag) for row in rows))
    aged = (((row.group,), row.age_s(ages, now_ms)) for row in rows)
    yield from family("odradek_group_lag_seconds", ((labels, age) for labels, age in aged if age is not None))
    used = (((row.group,), row.retention_used(ages, now_ms)) for row in rows)
    yield from family("odradek_group_retention_used_ratio", used)
    yield from family("odradek_group_lost_records", (((row.group,), row.lost) for row in rows))


def _share_groups(services: Services) -> Iterator[str]:
    counts = services.coordinators.dead_letter_counts()
    groups = sorted({*services.coordinators.share_groups(), *counts})
    groups = [each for each in groups if len(each) <= MAX_LABEL_CHARS][: services.config.metrics_max_groups]
    states: list[tuple[Labels, int]] = []
    for each in groups:
        held = archiving = 0
        for found in services.coordinators.share_records(each):
            held, archiving = held + found.held, archiving + found.archiving
            yield ""
        states += [((each, "held"), held), ((each, "archiving"), archiving)]
        yield ""
    yield from family("odradek_share_group_records", states)
    dead = [(each, counts[each]) for each in groups if each in counts]
    causes = (
        ((each, cause), count)
        for each, found in dead
        for cause, count in (("rejected", found.rejected), ("delivery_count", found.delivered_too_often))
    )
    yield from family("odradek_share_group_dead_letters_total", causes)
    yield from family("odradek_share_group_dead_letters_lost_total", (((each,), found.lost) for each, found in dead))


def _transactions(services: Services) -> Iterator[str]:
    found = 0
    for actor in list(services.transactions.ids.values()):
        found += actor.state.state is TransactionState.ONGOING
        yield ""
    yield from single("odradek_transactions_open", found)


def _disks(services: Services, space: dict[Path, tuple[int, int]]) -> Iterator[str]:
    failed = (((str(each.path),), int(not each.is_online)) for each in services.log_dirs.all)
    yield from family("odradek_log_dir_offline", failed)
    yield from family("odradek_disk_free_bytes", (((str(path),), free) for path, (_, free) in space.items()))
    yield from family("odradek_disk_size_bytes", (((str(path),), total) for path, (total, _) in space.items()))
    yield from single("odradek_segment_leases", len(services.segment_leases))


def unready_reasons(services: Services, is_listening: bool) -> Iterator[str]:
    """Yield each reason why clients are not to be sent to this broker now, as `/ready` and `odradek_ready` tell it.

    Being alive is another question, which any answer of the event loop settles. It does not depend on disks or
    ZooKeeper: a supervisor that restarts the broker for those would only add a recovery.
    """
    if not is_listening:
        yield "the broker does not listen yet"
    for name, shards in (("groups", services.groups.shards), ("transactions", services.transactions.shards)):
        if shards.loading:
            yield f"{len(shards.loading)} partitions of the coordinator of {name} are loading"
    for each in services.log_dirs.all:
        if each.failure is not None:
            yield f"data directory {each.path} is offline: {each.failure}"
    if services.cluster is not None and services.cluster.unready_reason is not None:
        yield services.cluster.unready_reason
    if services.replicas is not None and not services.replicas.is_ready.is_set():
        yield "the controller has not told this broker of its partitions"
