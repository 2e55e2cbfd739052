"""One visit of a page: what was asked for, who asks, and what a view needs to answer."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..client import Acl, Admin, KafkaError
from ..web.exchange import HttpError, Request, Response
from .cluster import Cluster
from .history.sight import Sight
from .journal import Journal
from .reading.schemas import Schemas
from .rendering import Templates

# Whether what an ACL says is allowed, and the rule that decides.
Decide = Callable[[Admin, Acl], Awaitable[tuple[bool, str]]]
# Why an ACL can match nobody; empty where it can match somebody.
WhyUnmatchable = Callable[[Acl], str]
R = TypeVar("R")
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class House:
    """What all visits share."""

    templates: Templates
    journal: Journal
    # The address of the cluster, as it was given: command lines name it.
    address: str
    read_only: bool
    schemas: Schemas | None
    decide: Decide | None
    why_unmatchable: WhyUnmatchable
    # One for each live tail.
    tails: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page. `names` are the variable parts of its path, `form` is what was posted."""

    request: Request
    names: Sequence[str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    token: str
    user: str
    cluster: Cluster
    history: Sight
    house: House
    # Of the navigation: which entry is the current one.
    section: str = field(default="")

    async def admin(self) -> Admin:
        """Return the cluster's admin client. Raises KafkaError."""
        return await self.cluster.admin()

    def text(self, name: str, default: str = "") -> str:
        """Return a text of the query."""
        return self.query.get(name, default)

    def number(self, name: str, default: int | None = None, low: int = 0, high: int = (1 << 63) - 1) -> int | None:
        """Return a number of the query, the default where it is left out. Raises HttpError."""
        return number_in(self.query, name, default, low, high)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of some words of the query, the first where it is left out. Raises HttpError."""
        found = self.query.get(name) or choices[0]
        if found not in choices:
            raise HttpError(400, f"{name} is one of {', '.join(choices)}")
        return found

    def page(self, template: str, title: str, status: int = 200, **values: Any) -> Response:
        """Return a page made by a template."""
        house = self.house
        shared = {
            "title": title, "section": self.section, "address": house.address, "read_only": house.read_only,
            "token": self.token, "user": self.user, "path": self.request.path, "query": defaultdict(str, self.query),
        }  # fmt: skip
        text = house.templates.render(template, shared | values)
        return Response(status, text.encode("utf-8", "backslashreplace"), HTML)


async def or_told(asked: Awaitable[R], otherwise: R, what: str, problems: list[str]) -> R:
    """Return what was asked for. Where the cluster rejects it, note why in `problems`, and return `otherwise`."""
    try:
        return await asked
    except KafkaError as error:
        problems.append(f"{what}: {error.message}" if what else error.message)
        return otherwise


def number_in(
    texts: Mapping[str, str], name: str, default: int | None, low: int = 0, high: int = (1 << 63) - 1
) -> int | None:
    """Return a number among texts, the default where it is left out. Raises HttpError."""
    text = texts.get(name, "").strip()
    if not text:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 20 or not low <= int(text) <= high:
        raise HttpError(400, f"{name} is a whole number from {low} to {high}")
    return int(text)
