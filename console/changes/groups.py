"""Changes of groups and transactions: reset offsets, delete a group, abort a transaction, fence a producer."""

from __future__ import annotations

from collections.abc import Mapping

from ...client import Admin, TopicPartition
from ...client.admin.group_resets import offsets_of, resets, set_offsets
from ...client.core.descriptions import GroupListing
from ...client.core.record_json import utc_text
from ..journal import Change
from ..reading.places import chosen_places, led_places, time_ms
from ..rendering import link, number
from ..visit import Visit
from .kind import Field, Fields, InvalidForm, Kind, required, whole_number

_MAX_OFFSET = (1 << 63) - 1
_TARGETS = ("earliest", "latest", "offset", "time", "shift by")


async def _listing(admin: Admin, group: str) -> GroupListing:
    found = next((each for each in await admin.list_groups() if each.group_id == group), None)
    if found is None:
        raise InvalidForm(f"there is no group {group!r}")
    return found


async def _reset(visit: Visit, admin: Admin, fields: Fields) -> Change:
    group, target = required(fields, "group"), fields["to"]
    listing = await _listing(admin, group)
    now = await offsets_of(admin, group, listing.type)
    places = await _places(admin, fields["topic"], now)
    wanted = await _wanted(admin, places, target, fields["value"], now)
    if listing.state not in ("Empty", "Dead", ""):
        raise InvalidForm(
            f"the group is {listing.state}: stop its members first, because the offsets are theirs to commit"
        )
    where = [word for each in filter(None, [fields["topic"]]) for word in ("--topic", each)]
    return Change(
        f"Reset offsets of {group}",
        ["groups", "reset-offsets", *where, *_target(target, fields["value"]), "--execute"],
        lambda: set_offsets(admin, group, listing.type, wanted),
        [
            (f"{each.topic}, partition {each.partition}", number(now.get(each)), number(at))
            for each, at in sorted(wanted.items())
        ],
        then=link("/group", id=group),
        name=group,
    )


async def _places(admin: Admin, topic: str, now: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Return the partitions to reset: those of `TOPIC` or `TOPIC:0,3`, or all that have an offset."""
    topics = await admin.describe_topics()
    if not topic:
        names = {each.topic for each in now} & topics.keys()
        places = [each for each in led_places(topics[name] for name in names) if each in now]
        if not places:
            raise InvalidForm("the group has no offsets yet: name a topic to give it some")
        return places
    name, _, numbers = topic.partition(":")
    if name not in topics:
        raise InvalidForm(f"there is no topic {name!r}")
    return chosen_places(topics[name], numbers)


async def _wanted(
    admin: Admin, places: list[TopicPartition], target: str, value: str, now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition, within its log. Raises InvalidForm."""
    given = 0
    if target == "time":
        given = time_ms(value)
    elif target in ("offset", "shift by"):
        try:
            given = int(value)
        except ValueError:
            raise InvalidForm(f"{target} needs a whole number") from None
    if target == "shift by" and not now.keys() >= set(places):
        raise InvalidForm("some of these partitions have no offset to shift")
    return {each: new for each, (_, _, new) in (await resets(admin, places, now, target, given)).items()}


def _target(target: str, value: str) -> list[str]:
    if target in ("earliest", "latest"):
        return [f"--to-{target}"]
    if target == "time":
        # On the command line a time without a zone is local. One beyond the year 9999 is a number.
        return ["--to-datetime", str(utc_text(time_ms(value)))]
    return ["--shift-by" if target == "shift by" else "--to-offset", value]


async def _delete(visit: Visit, admin: Admin, fields: Fields) -> Change:
    group = required(fields, "group")
    listing = await _listing(admin, group)
    count = len(await offsets_of(admin, group, listing.type))
    return Change(
        f"Delete the group {group}", ["groups", "delete", "--yes"], lambda: admin.delete_groups(group),
        [("partitions with an offset", str(count), "–")],
        "Its offsets are lost: its consumers begin where auto.offset.reset says.", "/groups", name=group,
    )  # fmt: skip


async def _abort(visit: Visit, admin: Admin, fields: Fields) -> Change:
    topic, partition = required(fields, "topic"), whole_number(fields, "partition")
    begin = whole_number(fields, "start-offset", high=_MAX_OFFSET)
    if partition is None or begin is None:
        raise InvalidForm("name the partition, and the offset where the transaction begins")
    place = TopicPartition(topic, partition)
    active = (await admin.describe_producers(place))[place]
    hanging = next((each for each in active if each.began_at == begin), None)
    if hanging is None:
        raise InvalidForm(f"no open transaction begins there in {topic}, partition {partition}")
    where = f"{topic}:{partition}"
    return Change(
        f"Abort the transaction in {where}",
        ["transactions", "abort", "--topic", where, "--start-offset", str(begin), "--yes"],
        lambda: admin.abort_transaction(place, hanging),
        [(f"producer {hanging.producer_id}", f"open since offset {begin}", "aborted")],
        "Its coordinator is not asked: abort only a transaction that nobody will end.",
        link(f"/topics/{topic}/producers", partition=partition),
    )


KINDS = {
    "reset-offsets": Kind(
        "Reset the offsets of a group",
        (
            Field("group", "Group", required=True),
            Field("topic", "Topic", hint="TOPIC or TOPIC:0,3; empty: wherever the group has an offset"),
            Field("to", "To", choices=_TARGETS, default="earliest"),
            Field("value", "Offset, time (ISO 8601 with its zone), or how many records"),
        ),
        _reset,
    ),
    "delete-group": Kind("Delete a group", (Field("group", "Group", required=True),), _delete, True),
    "abort-transaction": Kind(
        "Abort a transaction that hangs",
        (
            Field("topic", "Topic", required=True),
            Field("partition", "Partition", "number", required=True),
            Field("start-offset", "It begins at the offset", "number", required=True),
        ),
        _abort,
        True,
    ),
}
