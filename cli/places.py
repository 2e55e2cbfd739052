"""`--topic TOPIC[:PARTITION,...]`: which partitions a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition


def places_option(help_text: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, as the parameter `topics`."""
    return click.option(
        "--topic", "topics", metavar="TOPIC[:N,...]", multiple=True, required=required, callback=_check, help=help_text
    )


async def places_of(admin: Admin, topics: tuple[str, ...]) -> list[TopicPartition]:
    """The partitions that are meant, in order. Raises UnknownTopic, for a partition too."""
    from ..client import TopicPartition
    from ..client.errors import UnknownTopic

    asked = [_parts(topic) for topic in topics]
    there = await admin.describe_topics(*dict.fromkeys(name for name, _ in asked))
    places: dict[TopicPartition, None] = {}
    for name, numbers in asked:
        known = sorted(each.partition for each in there[name].partitions)
        for number in known if numbers is None else numbers:
            if number not in known:
                raise UnknownTopic(f"topic {name!r} has no partition {number}")
            places[TopicPartition(name, number)] = None
    return list(places)


def _check(context: click.Context, parameter: click.Parameter, topics: tuple[str, ...]) -> tuple[str, ...]:
    for topic in topics:
        _parts(topic)
    return topics


def _parts(text: str) -> tuple[str, list[int] | None]:
    """A topic's name, which cannot hold a colon, and partitions; None for all of them."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,...") from None
