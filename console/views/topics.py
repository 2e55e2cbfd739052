"""Topics: the list, one topic with its partitions and the groups that read it, and its configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...client import EARLIEST, LATEST, ConfigResource, TopicPartition
from ...client.core.descriptions import ConfigEntry
from ...client.core.metadata import TopicInfo
from ...web.exchange import HttpError, Response
from ..history.sampler import Sample
from ..reading.places import led_places, offsets
from ..rendering import link
from ..visit import Visit

PAGE_ROWS = 200
# The partitions of one topic that a page shows.
MAX_PARTITIONS = 1_000
_SORTS = ("name", "-partitions", "-records", "-size", "-rate")
# The sources of DescribeConfigs in words.
SOURCES = {1: "topic", 2: "broker", 3: "every broker", 4: "given at start", 5: "default"}


async def home(visit: Visit) -> Response:
    """Lead to the topics."""
    return Response(302, b"", headers=[("location", "/topics")])


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list. Numbers are those of the last sample, None before it."""

    name: str
    partitions: int
    replicas: int
    is_internal: bool
    # Partitions without a leader, and with fewer replicas in sync than they have.
    offline: int
    under_replicated: int
    ends: int | None
    size: int | None
    rate: float | None


async def all_topics(visit: Visit) -> Response:
    """Show the topics whose names contain a text, a page at a time."""
    admin = await visit.admin()
    found = await admin.describe_topics()
    wanted, sort = visit.text("q"), visit.choice("sort", _SORTS)
    internal = visit.text("internal") == "1"
    sample = await visit.history.sample(found.keys())
    rows = [
        _row(visit, sample, each)
        for each in found.values()
        if wanted in each.name and (internal or not each.is_internal)
    ]
    rows.sort(key=lambda row: _order(row, sort))
    return visit.page(
        "topics.html", "Topics", **page_of(visit, rows), total=len(found), sort=sort, q=wanted, internal=internal,
        sample=sample, error=visit.history.error,
    )  # fmt: skip


def page_of(visit: Visit, rows: Sequence[Any]) -> dict[str, Any]:
    """Return what a template shows of rows: those of the page that the query names, and which page of how many."""
    pages = max((len(rows) + PAGE_ROWS - 1) // PAGE_ROWS, 1)
    page = min(visit.number("page", 1, low=1) or 1, pages)
    shown = rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return {"rows": shown, "count": len(rows), "page": page, "pages": pages}


def _row(visit: Visit, sample: Sample, topic: TopicInfo) -> TopicRow:
    name = topic.name
    return TopicRow(
        name,
        len(topic.partitions),
        max((len(each.replicas) for each in topic.partitions), default=0),
        topic.is_internal,
        sum(each.leader < 0 for each in topic.partitions),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sample.topic_ends.get(name),
        sample.sizes.get(name),
        visit.history.rate(name),
    )


def _order(row: TopicRow, sort: str) -> tuple[float, str]:
    number = {"-partitions": row.partitions, "-records": row.ends, "-size": row.size, "-rate": row.rate}.get(sort)
    return -(number or 0), row.name


async def topic_named(visit: Visit, name: str) -> TopicInfo:
    """Return a topic. Raises HttpError where there is none."""
    admin = await visit.admin()
    found = (await admin.describe_topics()).get(name)
    if found is None:
        raise HttpError(404, f"There is no topic {name!r}.")
    return found


async def one_topic(visit: Visit) -> Response:
    """Show a topic: its partitions, and the groups that read it."""
    (name,) = visit.names
    topic = await topic_named(visit, name)
    admin = await visit.admin()
    places = led_places([topic])[:MAX_PARTITIONS]
    begins = await offsets(admin, dict.fromkeys(places, EARLIEST))
    ends = await offsets(admin, dict.fromkeys(places, LATEST))
    rows = [
        (each, begins.get(place), ends.get(place))
        for each in topic.partitions[:MAX_PARTITIONS]
        for place in [TopicPartition(name, each.partition)]
    ]
    sample = await visit.history.sample()
    records = sum(ends[each] - begins[each] for each in ends if each in begins)
    return visit.page(
        "topic.html", name, topic=topic, rows=rows, records=records, size=sample.sizes.get(name),
        rate=visit.history.rate(name), groups=sample.readers.get(name, {}), sample=sample,
        left_out=len(topic.partitions) - len(rows),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A config: its value, where it comes from, and what it would be without the topic's own."""

    entry: ConfigEntry
    source: str
    is_changed: bool
    # The config that would hold then, and its value.
    default: tuple[str, str | None]


async def configs(visit: Visit) -> Response:
    """Show the configs of a topic: those that differ from the default first, then the others."""
    (name,) = visit.names
    await topic_named(visit, name)
    admin = await visit.admin()
    resource = ConfigResource.topic(name)
    found = (await admin.describe_configs([resource]))[resource]
    rows = config_rows(found.values(), own_source=1)
    return visit.page("configs.html", f"Configs of {name}", name=name, rows=rows, resource="topic",
                      back=link(f"/topics/{name}"))  # fmt: skip


def config_rows(entries: Any, own_source: int) -> list[ConfigRow]:
    """Return configs by name, those with a value of their own first."""
    rows = [
        ConfigRow(each, SOURCES.get(each.source, f"source {each.source}"), each.source == own_source, _default(each))
        for each in sorted(entries, key=lambda each: each.name)
    ]
    return sorted(rows, key=lambda row: not row.is_changed)


def _default(entry: ConfigEntry) -> tuple[str, str | None]:
    """Return the config that would hold without this one, and its value: a broker's may have another unit."""
    below = [(name, value) for name, value, source in entry.synonyms if source > entry.source]
    return below[0] if below else (entry.name, entry.value)
