"""Transactional ids, one of them, and the producers that a partition remembers."""

from __future__ import annotations

from ...client import KafkaError, TopicPartition
from ...client.core.clock import wall_clock_ms
from ...web.exchange import HttpError, Response
from ..visit import Visit
from .topics import page_of, topic_named

STATES = ("all", "Ongoing", "Empty", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
MAX_PRODUCERS = 500


async def all_transactions(visit: Visit) -> Response:
    """Show the transactional ids that contain a text and are in a state."""
    admin = await visit.admin()
    wanted, state = visit.text("q"), visit.choice("state", STATES)
    rows = [
        each
        for each in await admin.list_transactions(states=() if state == "all" else (state,))
        if wanted in each.transactional_id
    ]
    return visit.page("transactions.html", "Transactions", **page_of(visit, rows), q=wanted, state=state, states=STATES)


async def one_transaction(visit: Visit) -> Response:
    """Show a transactional id: its producer, its state, and the partitions of its transaction."""
    name = visit.text("id")
    admin = await visit.admin()
    try:
        found = (await admin.describe_transactions(name))[name]
    except KafkaError as error:
        raise HttpError(404, error.message) from None
    open_s = None if found.began_ms is None else max(wall_clock_ms() - found.began_ms, 0) / 1000
    return visit.page("transaction.html", name, found=found, open_s=open_s)


async def producers(visit: Visit) -> Response:
    """Show the producers that a partition remembers, and where their open transactions begin."""
    topic = await topic_named(visit, visit.names[0])
    partition = visit.number("partition", 0) or 0
    if partition >= len(topic.partitions):
        raise HttpError(404, f"{topic.name} has partitions from 0 to {len(topic.partitions) - 1}.")
    place = TopicPartition(topic.name, partition)
    admin = await visit.admin()
    found = (await admin.describe_producers(place))[place]
    found = sorted(found, key=lambda each: (each.began_at is None, -each.last_timestamp_ms))
    return visit.page(
        "producers.html", f"Producers of {topic.name}", name=topic.name, topic=topic, partition=partition,
        rows=found[:MAX_PRODUCERS], left_out=len(found) - MAX_PRODUCERS,
    )  # fmt: skip
