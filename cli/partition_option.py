"""The option `--topic TOPIC[:N,...]`, which names partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .names import TOPIC

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition


def partition_option(help_text: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option. It passes its texts, already checked, as the parameter `topics`."""
    return click.option(
        "--topic",
        "topics",
        metavar="TOPIC[:N,...]",
        type=TOPIC,
        multiple=True,
        required=required,
        callback=check_partitions,
        help=help_text,
    )


async def partitions_of(admin: Admin, topics: tuple[str, ...]) -> list[TopicPartition]:
    """Return the partitions that the texts name, in order. UnknownTopic for a missing topic or partition."""
    from ..client import TopicPartition
    from ..client.errors import UnknownTopic

    wanted = [_parse(text) for text in topics]
    described = await admin.describe_topics(*dict.fromkeys(name for name, _ in wanted))
    partitions: dict[TopicPartition, None] = {}
    for name, numbers in wanted:
        known = sorted(each.partition for each in described[name].partitions)
        for number in known if numbers is None else numbers:
            if number not in known:
                raise UnknownTopic(f"topic {name!r} has no partition {number}")
            partitions[TopicPartition(name, number)] = None
    return list(partitions)


def check_partitions(context: click.Context, parameter: click.Parameter, topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as they are. BadParameter for one that names no partitions."""
    for text in topics:
        _parse(text)
    return topics


def _parse(text: str) -> tuple[str, list[int] | None]:
    """Return a topic's name, which cannot hold a colon, and the numbers of partitions, or None for all of them."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,...") from None
