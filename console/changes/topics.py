"""Changes of topics: create, delete, more partitions, configs, and deleting records."""

from __future__ import annotations

from ...client import LATEST, Admin, ConfigResource, NewTopic
from ...client.core.descriptions import BROKER_DEFAULT
from ..journal import Change
from ..reading.places import chosen_places, offsets
from ..rendering import number
from ..visit import Visit
from .kind import Field, Fields, InvalidForm, Kind, pairs, required, whole_number

_TOPIC = Field("topic", "Topic", required=True)


async def _create(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name, partitions, replicas = (
        required(fields, "topic"),
        whole_number(fields, "partitions", 1),
        whole_number(fields, "replicas", 1),
    )
    configs = pairs(fields["configs"])
    topic = NewTopic(name, partitions or BROKER_DEFAULT, replicas or BROKER_DEFAULT, configs)
    await admin.create_topics([topic], validate_only=True)
    arguments = ["topics", "create"]
    arguments += ["--partitions", str(partitions)] * (partitions is not None)
    arguments += ["--replication-factor", str(replicas)] * (replicas is not None)
    for key, value in configs.items():
        arguments += ["--config", f"{key}={value}"]
    effects = [
        ("partitions", "–", str(partitions or "the broker's default")),
        *((key, "–", value) for key, value in configs.items()),
    ]
    return Change(
        f"Create the topic {name}",
        arguments,
        lambda: admin.create_topics([topic]),
        effects,
        then=f"/topics/{name}",
        name=name,
    )


async def _delete(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name = required(fields, "topic")
    topic = (await admin.describe_topics(name))[name]
    if fields["confirm"] and fields["confirm"] != name:
        raise InvalidForm("the name that you typed is another one")
    return Change(
        f"Delete the topic {name}", ["topics", "delete", "--yes"], lambda: admin.delete_topics(name),
        [("partitions", str(len(topic.partitions)), "–")], "All its records are lost, and cannot be brought back.",
        "/topics", name=name,
    )  # fmt: skip


async def _add_partitions(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name, partitions = required(fields, "topic"), whole_number(fields, "partitions", 1)
    if partitions is None:
        raise InvalidForm("partitions is empty")
    topic = (await admin.describe_topics(name))[name]
    await admin.create_partitions({name: partitions}, validate_only=True)
    return Change(
        f"Give {name} {partitions} partitions", ["topics", "alter", "--partitions", str(partitions)],
        lambda: admin.create_partitions({name: partitions}),
        [("partitions", str(len(topic.partitions)), str(partitions))],
        "Keys go to other partitions from then on, and partitions cannot be taken away again.", f"/topics/{name}",
        name=name,
    )  # fmt: skip


async def _set_config(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name, config, value = required(fields, "topic"), required(fields, "config"), fields["value"]
    is_reset = fields["how"] == "reset to its default"
    resource = ConfigResource.topic(name)
    now = (await admin.describe_configs([resource]))[resource].get(config)
    if now is None:
        raise InvalidForm(f"topics have no config {config!r}")
    wanted = {resource: {config: None if is_reset else value}}
    await admin.alter_configs(wanted, validate_only=True)
    change = ["--delete", config] if is_reset else [f"{config}={value}"]
    to = "its default" if is_reset else value
    return Change(
        f"{'Reset' if is_reset else 'Set'} {config} of {name}", ["config", "set", *change, "--topic", name],
        lambda: admin.alter_configs(wanted), [(config, str(now.value), to)], then=f"/topics/{name}/configs",
    )  # fmt: skip


async def _delete_records(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name = required(fields, "topic")
    topic = (await admin.describe_topics(name))[name]
    partition, before = fields["partition"].strip(), whole_number(fields, "before")
    ends = await offsets(admin, dict.fromkeys(chosen_places(topic, partition), LATEST))
    places = {each: end if before is None else min(before, end) for each, end in ends.items()}
    where = f"{name}:{partition}" if partition else name
    return Change(
        f"Delete records of {where}",
        ["topics", "delete-records", *([] if before is None else ["--before", str(before)]), "--yes"],
        lambda: admin.delete_records(places),
        [(f"partition {each.partition}", "", f"begins at {number(at)}") for each, at in places.items()],
        "These records are lost, and cannot be brought back.", f"/topics/{name}", name=where,
    )  # fmt: skip


KINDS = {
    "create-topic": Kind(
        "Create a topic",
        (
            _TOPIC,
            Field("partitions", "Partitions", "number", hint="Empty: the broker's num.partitions"),
            Field("replicas", "Replicas", "number", hint="Empty: the broker's default.replication.factor"),
            Field("configs", "Configs", "area", hint="NAME=VALUE, one a line"),
        ),
        _create,
    ),
    "delete-topic": Kind("Delete a topic", (_TOPIC, Field("confirm", "Type its name again")), _delete, True),
    "add-partitions": Kind(
        "Add partitions",
        (_TOPIC, Field("partitions", "Partitions", "number", required=True)),
        _add_partitions,
    ),
    "set-config": Kind(
        "Set a config of a topic",
        (
            _TOPIC,
            Field("config", "Config", required=True),
            Field("how", "", choices=("set to the value", "reset to its default"), default="set to the value"),
            Field("value", "Value"),
        ),
        _set_config,
    ),
    "delete-records": Kind(
        "Delete records",
        (
            _TOPIC,
            Field("partition", "Partition", "number", hint="Empty: all"),
            Field("before", "Before the offset", "number", hint="Empty: all records"),
        ),
        _delete_records,
        True,
    ),
}
