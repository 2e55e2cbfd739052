"""`odradek cluster elect-leaders`, `reassign` and `drain`: where the leaders and replicas of a cluster are.

`--throttle` does as Kafka's ReassignPartitionsCommand: configs of the topics list the replicas that are read and
written, and the brokers get a rate. Afterwards each config is as it was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from .confirmation import dry_run_option
from .errors import CliError
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import AnyWholeNumber, parse_value

if TYPE_CHECKING:
    from ..client import Admin, ConfigResource, TopicPartition
    from ..client.core.metadata import TopicInfo

_MOVE = ("topic", "partition", "from", "to")
_ELECTED = ("topic", "partition")
# How often a command looks whether the replicas have moved.
_LOOK_S = 0.2


def _parse_rate(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    number = parse_value("bytes", text)
    if not number.isdecimal() or not int(number):
        raise click.BadParameter(f"{text} is no number of bytes such as 10MB")
    return int(number)


_throttle_option: Callable[[Any], Any] = click.option(
    "--throttle",
    callback=_parse_rate,
    metavar="BYTES",
    help="Bytes a second of each broker for what moves, such as 10MB. It ends with the command.",
)


@click.command("elect-leaders", short_help="Make preferred replicas leaders again.")
@dry_run_option
@row_options
@bootstrap_option
def elect_leaders(dry_run: bool) -> None:
    """Make the first replica of every partition its leader again, and print the partitions that have a new leader.

    \b
    Examples:
      odradek cluster elect-leaders --dry-run
      odradek cluster elect-leaders
    """

    async def work(admin: Admin) -> list[TopicPartition]:
        return _led_elsewhere((await admin.describe_topics()).values()) if dry_run else await admin.elect_leaders()

    print_rows(_ELECTED, with_admin(work))


def _led_elsewhere(topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    """Return the partitions whose first replica is in sync and does not lead."""
    from ..client import TopicPartition

    return [
        TopicPartition(topic.name, each.partition)
        for topic in sorted(topics, key=lambda each: each.name)
        for each in topic.partitions
        if each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]


@click.command(short_help="Give a partition other replicas.")
@click.argument("topic")
@click.argument("partition", type=AnyWholeNumber())
@click.option("--to", "brokers", required=True, metavar="1,2,3", help="The brokers, the preferred leader first.")
@click.option("--no-wait", is_flag=True, help="Return once the move has begun.")
@dry_run_option
@_throttle_option
@bootstrap_option
def reassign(topic: str, partition: int, brokers: str, no_wait: bool, dry_run: bool, throttle: int | None) -> None:
    """Move a partition to other brokers, and wait until its records are there.

    \b
    Examples:
      odradek cluster reassign flights 0 --to 2,3,1
      odradek cluster reassign flights 0 --to 2,3,1 --throttle 10MB
    """
    from ..client import TopicPartition

    if no_wait and throttle is not None:
        raise click.UsageError("--throttle ends with the command, so it cannot be given with --no-wait")
    try:
        wanted = [int(each) for each in brokers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{brokers} are no broker ids such as 1,2,3", param_hint="--to") from None

    async def work(admin: Admin) -> None:
        place = TopicPartition(topic, partition)
        moves = {place: (await _replicas_of(admin, place), wanted)}
        if dry_run:
            _show_moves(moves)
        else:
            await _move(admin, moves, throttle=throttle, wait=not no_wait)

    with_admin(work)


def _show_moves(moves: Moves) -> None:
    print_rows(_MOVE, ((*place, before, after) for place, (before, after) in moves.items()))


@click.command(short_help="Move all replicas away from a broker.")
@click.argument("broker", type=AnyWholeNumber())
@dry_run_option
@_throttle_option
@row_options
@bootstrap_option
def drain(broker: int, dry_run: bool, throttle: int | None) -> None:
    """Move every replica of BROKER to the brokers that have the fewest, print the moves, and wait for their end.

    The broker holds nothing afterwards, and can be stopped for good.

    \b
    Examples:
      odradek cluster drain 3 --dry-run
      odradek cluster drain 3 --throttle 10MB
    """

    async def work(admin: Admin) -> Moves:
        cluster = await admin.describe_cluster()
        others = [node.node_id for node in cluster.nodes if node.node_id != broker]
        moves = plan_drain((await admin.describe_topics()).values(), broker, others)
        if moves and not dry_run:
            await _move(admin, moves, throttle=throttle)
        return moves

    moves = with_admin(work)
    if not moves:
        click.echo(f"nothing to move: broker {broker} holds no replica", err=True)
    _show_moves(moves)


def plan_drain(topics: Any, broker: int, others: list[int]) -> dict[TopicPartition, tuple[list[int], list[int]]]:
    """Return the replicas before and after of each partition of `broker`. Raises CliError where brokers are too few."""
    from ..client import TopicPartition

    found: list[TopicInfo] = sorted(topics, key=lambda each: each.name)
    held = Counter(replica for topic in found for each in topic.partitions for replica in each.replicas)
    moves: dict[TopicPartition, tuple[list[int], list[int]]] = {}
    for topic in found:
        for each in topic.partitions:
            if broker not in each.replicas:
                continue
            free = [other for other in others if other not in each.replicas]
            if not free:
                where = f"{topic.name}-{each.partition}"
                raise CliError(f"{where} has a replica on every other broker: start another broker first")
            chosen = min(free, key=lambda other: (held[other], other))
            held[chosen] += 1
            before = list(each.replicas)
            after = [chosen if replica == broker else replica for replica in before]
            moves[TopicPartition(topic.name, each.partition)] = before, after
    return moves


async def _move(admin: Admin, moves: Moves, *, throttle: int | None, wait: bool = True) -> None:
    """Begin moves, and wait for their end; with `throttle` no faster than so many bytes a second of each broker."""
    async with AsyncExitStack() as stack:
        if throttle is not None:
            await stack.enter_async_context(throttled(admin, moves, throttle))
        await admin.alter_partition_reassignments({place: to for place, (_, to) in moves.items()})
        moving = wait
        while moving:
            moving = bool(moves.keys() & (await admin.list_partition_reassignments()).keys())
            if moving:
                await asyncio.sleep(_LOOK_S)


async def _replicas_of(admin: Admin, place: TopicPartition) -> list[int]:
    """Return the replicas of a partition. Raises CliError where there is none."""
    found = (await admin.describe_topics(place.topic))[place.topic]
    for each in found.partitions:
        if each.partition == place.partition:
            return list(each.replicas)
    raise CliError(f"{place.topic} has no partition {place.partition}")


_SIDES = ("leader", "follower")
# The sources of configs that are set on the resource itself: of a topic, and of a broker.
_OWN = (1, 2)
# A text of a request has no more, at Kafka either.
_MAX_LISTED_CHARS = 0x7FFF
# A partition's replicas before and after.
Moves = Mapping["TopicPartition", tuple[list[int], list[int]]]


def listed(moves: Moves) -> dict[str, dict[str, list[str]]]:
    """Return the throttled replicas of each topic by side: all that may lead, and those that are new."""
    found: dict[str, dict[str, list[str]]] = {}
    for place, (before, after) in sorted(moves.items()):
        sides = found.setdefault(place.topic, {side: [] for side in _SIDES})
        sides["leader"] += [f"{place.partition}:{broker}" for broker in before]
        sides["follower"] += [f"{place.partition}:{broker}" for broker in after if broker not in before]
    return found


@asynccontextmanager
async def throttled(admin: Admin, moves: Moves, rate: int) -> AsyncGenerator[None]:
    """Bound the bytes a second of each broker for these moves, and put the configs back at the end."""
    from ..client import ConfigResource

    wanted: dict[ConfigResource, dict[str, str]] = {
        ConfigResource.topic(topic): {_replicas(side): ",".join(some) for side, some in sides.items()}
        for topic, sides in listed(moves).items()
    }
    brokers = {broker for before, after in moves.values() for broker in (*before, *after)}
    alive = {node.node_id for node in (await admin.describe_cluster()).nodes}
    for broker in sorted(brokers & alive):
        wanted[ConfigResource.broker(broker)] = {_rate(side): str(rate) for side in _SIDES}
    earlier = await _own_values(admin, wanted)
    try:
        # Some resources may have theirs although others have failed.
        await _set(admin, {each: _merged(configs, earlier[each]) for each, configs in wanted.items()})
        yield
    finally:
        await _set(admin, earlier)


def _replicas(side: str) -> str:
    return f"{side}.replication.throttled.replicas"


def _rate(side: str) -> str:
    return f"{side}.replication.throttled.rate"


async def _own_values(
    admin: Admin, wanted: Mapping[ConfigResource, Iterable[str]]
) -> dict[ConfigResource, dict[str, str | None]]:
    """Return what each resource itself has for these configs, None for each that it does not set."""
    names = [name(side) for side in _SIDES for name in (_replicas, _rate)]
    found = await admin.describe_configs(wanted, names=names)
    return {
        resource: {
            name: entry.value if (entry := found[resource].get(name)) is not None and entry.source in _OWN else None
            for name in configs
        }
        for resource, configs in wanted.items()
    }


def _merged(configs: Mapping[str, str], earlier: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the configs with the replicas that were listed already.

    `*` lists them all, also where the list is longer than a request can have it. Replicas in sync are never throttled.
    """
    merged: dict[str, str | None] = {}
    for name, value in configs.items():
        known = earlier[name] if name.endswith(".replicas") else None
        both = value if not known else known if known == "*" else ",".join(filter(None, (known, value)))
        merged[name] = both if len(both) <= _MAX_LISTED_CHARS else "*"
    return merged


async def _set(admin: Admin, configs: Mapping[ConfigResource, Mapping[str, str | None]]) -> None:
    from ..client import ConfigChange

    await admin.alter_configs(
        {
            resource: [
                ConfigChange(name, value) if value is not None else ConfigChange(name, operation="delete")
                for name, value in some.items()
            ]
            for resource, some in configs.items()
        }
    )
