"""The table of pages: a path, the view that makes it, and its entry in the navigation. `*` is any part of a path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ..web.exchange import Response
from ..web.routes import Routes
from .views import access, changes, cluster, groups, records, schemas, series, tail, topics, transactions
from .visit import Visit

_READ = ("GET", "HEAD")


class Route(NamedTuple):
    """A page. Only a view of changes takes a POST."""

    view: Callable[[Visit], Awaitable[Response]]
    section: str
    methods: tuple[str, ...] = _READ


_TABLE: dict[str, Route] = {
    "": Route(topics.home, "topics"),
    "topics": Route(topics.all_topics, "topics"),
    "topics/*": Route(topics.one_topic, "topics"),
    "topics/*/configs": Route(topics.configs, "topics"),
    "topics/*/records": Route(records.found, "topics"),
    "topics/*/records/*/*": Route(records.one_record, "topics"),
    "topics/*/records/*/*/*": Route(records.raw, "topics"),
    "topics/*/export": Route(records.export, "topics"),
    "topics/*/tail": Route(tail.page, "topics"),
    "topics/*/tail/events": Route(tail.events, "topics"),
    "topics/*/producers": Route(transactions.producers, "topics"),
    "groups": Route(groups.all_groups, "groups"),
    "group": Route(groups.one_group, "groups"),
    "cluster": Route(cluster.overview, "cluster"),
    "health": Route(cluster.health, "cluster"),
    "brokers/*": Route(cluster.broker, "cluster"),
    "transactions": Route(transactions.all_transactions, "transactions"),
    "transaction": Route(transactions.one_transaction, "transactions"),
    "schemas": Route(schemas.page, "schemas"),
    "acls": Route(access.acls, "acls"),
    "users": Route(access.users, "users"),
    "quotas": Route(access.quotas, "quotas"),
    "change/*": Route(changes.form, "changes", (*_READ, "POST")),
    "changes": Route(changes.journal, "changes"),
    "changes/*": Route(changes.entry, "changes"),
    "series": Route(series.series, ""),
}
# "/" is "": a path of one empty part.
ROUTES = Routes(_TABLE)
