"""`--throttle` of `odradek cluster reassign` and `drain`: replicas that move are copied no faster than so.

As Kafka's ReassignPartitionsCommand does it: configs of the topics list the replicas that are read and written, and
the brokers get a rate. Afterwards each config is as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..client import Admin, ConfigResource, TopicPartition

_SIDES = ("leader", "follower")
# The sources of configs that are set on the resource itself: of a topic, and of a broker.
_OWN = (1, 2)
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
    await _set(admin, {each: _merged(configs, earlier[each]) for each, configs in wanted.items()})
    try:
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
    """Return the configs with the replicas that were listed already. `*` lists them all."""
    merged: dict[str, str | None] = {}
    for name, value in configs.items():
        known = earlier[name] if name.endswith(".replicas") else None
        merged[name] = value if not known else known if known == "*" else ",".join(filter(None, (known, value)))
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
